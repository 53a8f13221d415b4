// SPDX-License-Identifier: Apache-2.0
// ModelSource on the real GGUF model and on Hugging Face folders, against golden values.
#include "actors/model/files/model_source.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch2/catch.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tests/golden/golden.h"

namespace troupe {
namespace {

std::unique_ptr<ModelSource> MustOpen(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ModelSource>> source = ModelSource::Open(path);
  INFO(StatusText(source.status()));
  REQUIRE(source.ok());
  return *std::move(source);
}

std::vector<float> MustRead(const ModelSource& source, const std::string& name) {
  const TensorInfo* info = source.Find(name);
  INFO(name);
  REQUIRE(info != nullptr);
  std::vector<float> values(static_cast<size_t>(info->num_elements()));
  REQUIRE(source.Read(name, absl::MakeSpan(values)).ok());
  return values;
}

// A folder of the golden model `name`, in which a test may change files.
std::string CopyOfModel(const std::string& name) {
  std::string dir = MakeTemporaryDirectory("model_source_test").value();
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(GoldenPath("models/" + name + "/" + file), dir + "/" + file);
    std::filesystem::permissions(dir + "/" + file, std::filesystem::perms::owner_all);
  }
  return dir;
}

}  // namespace

TEST_CASE("ModelSource: SmolLM2's dequantised values equal the reference's", "[model_source]") {
  auto source = MustOpen(GoldenModelPath());
  for (const GoldenCase& golden : GoldenCases("smollm2.json", "dequantise")) {
    INFO(golden.name);
    std::string name = golden.config.at("hf_name");
    std::vector<float> values = MustRead(*source, name);
    CHECK(source->Find(name)->stored_type == golden.config.at("type"));
    std::vector<int64_t> shape = golden.config.at("shape");
    CHECK(source->Find(name)->shape == shape);
    std::vector<size_t> at = golden.inputs.at("flat_index");
    std::vector<double> expected = GoldenNumbers(golden.outputs.at("hf_values"));
    for (size_t i = 0; i < at.size(); ++i) CHECK(values.at(at[i]) == static_cast<float>(expected[i]));
    double sum = 0, squares = 0;
    for (float value : values) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    CHECK(sum == Approx(GoldenNumber(golden.outputs.at("hf_sum_f64"))).epsilon(1e-9).margin(1e-7));
    CHECK(std::sqrt(squares) == Approx(GoldenNumber(golden.outputs.at("hf_norm_f64"))).epsilon(1e-9));
  }
}

TEST_CASE("ModelSource: SmolLM2's architecture is read from its metadata", "[model_source]") {
  auto source = MustOpen(GoldenModelPath());
  const ModelConfig& config = source->config();
  CHECK(config.num_hidden_layers == 30);
  CHECK(config.hidden_size == 576);
  CHECK(config.num_attention_heads == 9);
  CHECK(config.num_key_value_heads == 3);
  CHECK(config.head_dim == 64);
  CHECK(config.vocab_size == 49152);
  CHECK(config.rope_theta == 100000.0);
  CHECK(config.rms_norm_eps == 1e-5);
  CHECK(config.max_position_embeddings == 8192);
  CHECK(config.tie_word_embeddings);
  CHECK(config.eos_token_ids == std::vector<int64_t>{2});
  CHECK(source->tensors().size() == 272);
}

TEST_CASE("ModelSource: every golden Llama folder opens and reads all that its config implies", "[model_source]") {
  for (const char* name : {"llama_tied", "llama_untied", "llama_bias_headdim", "llama_bf16"}) {
    auto source = MustOpen(GoldenPath("models/" + std::string(name)));
    CHECK(source->tensors().size() == ParameterShapes(source->config()).size());
    for (const TensorInfo& tensor : source->tensors()) {
      double squares = 0;
      for (float value : MustRead(*source, tensor.name)) squares += static_cast<double>(value) * value;
      CHECK(std::isfinite(squares));
      if (tensor.name.find(".weight") != std::string::npos) CHECK(squares > 0);
    }
  }
}

TEST_CASE("ModelSource: a read into a span of another size or of no tensor is refused", "[model_source]") {
  auto source = MustOpen(GoldenPath("models/llama_tied"));
  std::vector<float> values(3);
  CHECK(source->Read("model.norm.weight", absl::MakeSpan(values)).code() == absl::StatusCode::kInvalidArgument);
  CHECK(source->Read("lm_head.weight", absl::MakeSpan(values)).code() == absl::StatusCode::kNotFound);
}

TEST_CASE("ModelSource: config and tensors that disagree are refused, both named", "[model_source]") {
  std::string dir = CopyOfModel("llama_tied");
  std::string config = ReadFile(dir + "/config.json", 1 << 20).value();
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = config;
    REQUIRE(text.find(from) != std::string::npos);
    REQUIRE(WriteFileAtomic(dir + "/config.json", text.replace(text.find(from), from.size(), to)).ok());
    return StatusText(ModelSource::Open(dir).status());
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(with("\"vocab_size\": 128", "\"vocab_size\": 129"),
             Contains("model.embed_tokens.weight") && Contains("[128, 32]") && Contains("[129, 32]"));
  CHECK_THAT(with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"),
             Contains("model.layers.2") && Contains("missing"));
  CHECK_THAT(with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"), Contains("does not imply"));
  CHECK_THAT(with("\"model_type\": \"llama\"", "\"model_type\": \"bert\""),
             Contains("'bert'") && Contains("supported: llama"));
  CHECK_THAT(with("\"num_attention_heads\": 4", "\"num_attention_heads\": 3"), Contains("num_attention_heads"));
  REQUIRE(RemoveTree(dir).ok());
}

TEST_CASE("ModelSource: missing files are named", "[model_source]") {
  using Catch::Matchers::Contains;
  CHECK(ModelSource::Open("/nonexistent/model.gguf").status().code() == absl::StatusCode::kNotFound);
  std::string dir = CopyOfModel("llama_tied");
  std::filesystem::remove(dir + "/model.safetensors");
  CHECK_THAT(StatusText(ModelSource::Open(dir).status()), Contains("NOT_FOUND") && Contains("model.safetensors"));
  std::filesystem::remove(dir + "/config.json");
  CHECK_THAT(StatusText(ModelSource::Open(dir).status()), Contains("NOT_FOUND") && Contains("config.json"));
  REQUIRE(RemoveTree(dir).ok());
}

TEST_CASE("ModelSource: shards are joined, and an index that leaves its folder is refused", "[model_source]") {
  using Catch::Matchers::Contains;
  std::string dir = CopyOfModel("llama_tied");
  std::filesystem::rename(dir + "/model.safetensors", dir + "/model-00001-of-00001.safetensors");
  auto index = [&](const std::string& file) {
    std::string text = R"({"metadata": {}, "weight_map": {"model.norm.weight": ")" + file + "\"}}";
    REQUIRE(WriteFileAtomic(dir + "/model.safetensors.index.json", text).ok());
  };
  index("model-00001-of-00001.safetensors");
  CHECK(MustOpen(dir)->tensors().size() == MustOpen(GoldenPath("models/llama_tied"))->tensors().size());
  index("../../etc/passwd");
  CHECK_THAT(StatusText(ModelSource::Open(dir).status()), Contains("no name of a file"));
  REQUIRE(RemoveTree(dir).ok());
}

}  // namespace troupe
