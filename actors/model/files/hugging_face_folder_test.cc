// SPDX-License-Identifier: Apache-2.0
// Folders that are written are read back as they were: weights, architecture, tokenizer.
#include "actors/model/files/hugging_face_folder.h"

#include <cmath>
#include <string>
#include <vector>

#include "actors/model/files/model_source.h"
#include "actors/model/files/random_model.h"
#include "actors/tokenizer/tokenizer.h"
#include "catch2/catch.hpp"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tests/golden/golden.h"

namespace troupe {
namespace {

struct TemporaryFolder {
  std::string path = MakeTemporaryDirectory("hugging_face_folder_test").value();
  ~TemporaryFolder() { RemoveTree(path).IgnoreError(); }
};

std::vector<float> MustRead(const ModelSource& source, const std::string& name) {
  INFO(name);
  REQUIRE(source.Find(name) != nullptr);
  std::vector<float> values(static_cast<size_t>(source.Find(name)->num_elements()));
  REQUIRE(source.Read(name, absl::MakeSpan(values)).ok());
  return values;
}

// Copies a model through WriteHuggingFaceFolder.
void MustCopy(const ModelSource& source, const std::string& dir, const HuggingFaceFolderOptions& options) {
  std::vector<float> values;
  auto read = [&](const ParameterShape& parameter) -> absl::StatusOr<absl::Span<const float>> {
    values = MustRead(source, parameter.name);
    return absl::MakeConstSpan(values);
  };
  absl::Status status = WriteHuggingFaceFolder(dir, source.config(), nullptr, read, options);
  INFO(StatusText(status));
  REQUIRE(status.ok());
}

}  // namespace

TEST_CASE("HuggingFaceFolder: a copy in float32 has equal weights and architecture", "[hugging_face_folder]") {
  for (const char* name : {"llama_tied", "llama_bias_headdim"}) {
    TemporaryFolder dir;
    auto source = ModelSource::Open(GoldenPath("models/" + std::string(name))).value();
    MustCopy(*source, dir.path, {});
    auto copy = ModelSource::Open(dir.path);
    INFO(StatusText(copy.status()));
    REQUIRE(copy.ok());
    CHECK((*copy)->config() == source->config());
    for (const TensorInfo& tensor : source->tensors()) {
      CHECK(MustRead(**copy, tensor.name) == MustRead(*source, tensor.name));
    }
  }
}

TEST_CASE("HuggingFaceFolder: bfloat16 and float16 are rounded to nearest", "[hugging_face_folder]") {
  auto source = ModelSource::Open(GoldenPath("models/llama_tied")).value();
  for (auto [dtype, name, epsilon] :
       {std::tuple(ElementType::kBF16, "bfloat16", 1.0 / 256), std::tuple(ElementType::kF16, "float16", 1.0 / 2048)}) {
    TemporaryFolder dir;
    MustCopy(*source, dir.path, {.dtype = dtype});
    auto copy = ModelSource::Open(dir.path).value();
    CHECK(copy->config().dtype == name);
    std::vector<float> before = MustRead(*source, "model.embed_tokens.weight");
    std::vector<float> after = MustRead(*copy, "model.embed_tokens.weight");
    for (size_t i = 0; i < before.size(); ++i) CHECK(after[i] == Approx(before[i]).epsilon(epsilon).margin(1e-7));
  }
}

TEST_CASE("HuggingFaceFolder: a large model goes to shards, named by an index", "[hugging_face_folder]") {
  TemporaryFolder dir;
  auto source = ModelSource::Open(GoldenPath("models/llama_untied")).value();
  MustCopy(*source, dir.path, {.shard_bytes_max = 20'000});
  CHECK_FALSE(FileExists(dir.path + "/model.safetensors"));
  auto copy = ModelSource::Open(dir.path).value();
  for (const TensorInfo& tensor : source->tensors()) {
    CHECK(MustRead(*copy, tensor.name) == MustRead(*source, tensor.name));
  }
  size_t shards = 0;
  std::vector<std::string> names = ListDirectory(dir.path).value();
  for (const std::string& name : names) shards += name.find("-of-") != std::string::npos;
  CHECK(shards > 2);
}

TEST_CASE("HuggingFaceFolder: generation_config.json has every end id", "[hugging_face_folder]") {
  TemporaryFolder dir;
  ModelConfig config = EvenDigitsConfig();
  config.eos_token_ids = {1, 7};
  REQUIRE(MakeRandomModel(config, 1, dir.path).ok());
  auto json = nlohmann::json::parse(ReadFile(dir.path + "/generation_config.json", 1 << 20).value());
  CHECK(json.at("eos_token_id") == nlohmann::json({1, 7}));
  CHECK(ModelSource::Open(dir.path).value()->config().eos_token_ids == std::vector<int64_t>{1, 7});
}

TEST_CASE("MakeRandomModel: weights depend on the seed alone and have the asked deviation", "[random_model]") {
  TemporaryFolder a, b, c;
  REQUIRE(MakeRandomModel(EvenDigitsConfig(), 1, a.path).ok());
  REQUIRE(MakeRandomModel(EvenDigitsConfig(), 1, b.path).ok());
  REQUIRE(MakeRandomModel(EvenDigitsConfig(), 2, c.path).ok());
  auto read = [](const std::string& dir) { return ReadFile(dir + "/model.safetensors", 1 << 24).value(); };
  CHECK(read(a.path) == read(b.path));
  CHECK(read(a.path) != read(c.path));
  auto source = ModelSource::Open(a.path).value();
  CHECK(source->config() == EvenDigitsConfig());
  std::vector<float> weights = MustRead(*source, "model.layers.1.mlp.up_proj.weight");
  double sum = 0, squares = 0;
  for (float value : weights) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  double n = static_cast<double>(weights.size());
  CHECK(std::abs(sum / n) < 0.001);
  CHECK(std::sqrt(squares / n) == Approx(0.02).epsilon(0.03));
  CHECK(MustRead(*source, "model.norm.weight") == std::vector<float>(64, 1.0f));
}

TEST_CASE("MakeRandomModel: its tokenizer has one token a character", "[random_model]") {
  TemporaryFolder dir;
  REQUIRE(MakeRandomModel(EvenDigitsConfig(), 1, dir.path).ok());
  auto tokenizer = Tokenizer::Load(dir.path);
  INFO(StatusText(tokenizer.status()));
  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->Encode("abc12").value() == std::vector<int32_t>{12, 13, 14, 3, 4});
  CHECK((*tokenizer)->Encode("0t<eos>").value() == std::vector<int32_t>{2, 31, 1});
  CHECK((*tokenizer)->Encode("z").value() == std::vector<int32_t>{0});  // unknown
  CHECK((*tokenizer)->Decode({12, 1, 2, 31}, {.skip_special_tokens = true}) == "a0t");
  CHECK((*tokenizer)->vocab_size() == 32);
  CHECK((*tokenizer)->special().eos == 1);
  CHECK((*tokenizer)->special().pad == 0);
}

TEST_CASE("MakeRandomModel: with a tokenizer of its own, what is written loads and gives the same ids",
          "[random_model]") {
  TemporaryFolder dir;
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::Load(GoldenPath("tokenizers/smollm_digits")).value();
  ModelConfig config = EvenDigitsConfig();
  config.vocab_size = tokenizer->vocab_size() + 3;  // padded
  REQUIRE(MakeRandomModel(config, 1, dir.path, tokenizer.get()).ok());
  CHECK(ModelSource::Open(dir.path).value()->config() == config);
  const std::unique_ptr<Tokenizer> again = Tokenizer::Load(dir.path).value();
  const std::string text = "Add 12 and 7:\n caf\u00e9";
  CHECK(again->Encode(text).value() == tokenizer->Encode(text).value());
  CHECK(again->vocab_size() == tokenizer->vocab_size());
  config.vocab_size = tokenizer->vocab_size() - 1;
  CHECK(MakeRandomModel(config, 1, dir.path, tokenizer.get()).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("MakeRandomModel: a vocabulary that characters cannot fill is refused", "[random_model]") {
  TemporaryFolder dir;
  ModelConfig config = EvenDigitsConfig();
  config.vocab_size = 1000;
  CHECK(MakeRandomModel(config, 1, dir.path).code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace troupe
