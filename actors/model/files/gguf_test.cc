// SPDX-License-Identifier: Apache-2.0
// GGUF files: values of every tensor type, metadata, and what is wrong with a file.
#include "actors/model/files/gguf.h"

#include <fstream>
#include <string>
#include <vector>

#include "actors/model/files/ggml_type.h"
#include "actors/model/files/gguf_builder.h"
#include "actors/model/files/model_source.h"
#include "catch2/catch.hpp"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tests/golden/golden.h"

namespace troupe {
namespace {

using Catch::Matchers::Contains;

absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string FromHex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::string SmallFile() {
  return GgufBuilder()
      .String("general.architecture", "llama")
      .Uint32("llama.block_count", 1)
      .Float32("llama.eps", 1e-5f)
      .Strings("tokens", {"a", "bc", ""})
      .Ints("types", {1, -2, 3})
      .Tensor("x", {2, 3}, {1, 2, 3, 4, 5, 6})
      .Tensor("y", {4}, {7, 8, 9, 10})
      .Build();
}

std::string ParseError(const std::string& file) { return StatusText(ParseGguf(Bytes(file)).status()); }

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("GGUF: every tensor type has the reference's values", "[gguf]") {
  std::ifstream in("actors/model/files/testdata/dequantise.json");
  nlohmann::json json = nlohmann::json::parse(in);
  REQUIRE(json.at("cases").size() == 13);
  for (const auto& golden : json.at("cases")) {
    INFO(golden.at("type"));
    auto traits = FindGgmlType(golden.at("number"));
    REQUIRE(traits.ok());
    CHECK((*traits)->name == golden.at("type"));
    std::string bytes = FromHex(golden.at("bytes"));
    std::vector<double> expected = golden.at("values");
    std::vector<float> values(expected.size());
    REQUIRE(Dequantise(**traits, Bytes(bytes), absl::MakeSpan(values)).ok());
    for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == static_cast<float>(expected[i]));
    CHECK_FALSE(Dequantise(**traits, Bytes(bytes).subspan(1), absl::MakeSpan(values)).ok());
  }
  CHECK_THAT(StatusText(FindGgmlType(99).status()), Contains("type 99") && Contains("Q4_1"));
}

TEST_CASE("GGUF: metadata and tensors are read back, in both versions", "[gguf]") {
  std::string dir = MakeTemporaryDirectory("gguf_test").value();
  std::string text = SmallFile();
  for (char version : {2, 3}) {
    text[4] = version;
    REQUIRE(WriteFileAtomic(dir + "/small.gguf", text).ok());
    auto file = GgufFile::Open(dir + "/small.gguf");
    INFO(StatusText(file.status()));
    REQUIRE(file.ok());
    CHECK((*file)->String("general.architecture").value() == "llama");
    CHECK((*file)->Int("llama.block_count").value() == 1);
    CHECK((*file)->Number("llama.eps").value() == 1e-5);
    CHECK((*file)->Strings("tokens").value() == std::vector<std::string>{"a", "bc", ""});
    CHECK((*file)->Ints("types").value() == std::vector<int64_t>{1, -2, 3});
    CHECK((*file)->Find("x")->shape == std::vector<int64_t>{2, 3});
    CHECK((*file)->Find("z") == nullptr);
    CHECK((*file)->Int("nothing").status().code() == absl::StatusCode::kNotFound);
    CHECK_THAT(StatusText((*file)->Int("tokens").status()), Contains("'tokens'") && Contains("whole number"));
    CHECK_THAT(StatusText((*file)->Strings("types").status()), Contains("array of strings"));
  }
  REQUIRE(RemoveTree(dir).ok());
}

TEST_CASE("GGUF: SmolLM2's tensors lie where the reference finds them", "[gguf]") {
  auto file = GgufFile::Open(GoldenModelPath()).value();
  auto expected = GoldenCases("smollm2.json", "gguf_tensors").at(0).outputs.at("tensors");
  REQUIRE(file->tensors().size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const GgufTensor& tensor = file->tensors()[i];
    CHECK(tensor.name == expected[i].at("name"));
    CHECK(tensor.type->name == expected[i].at("type"));
    CHECK(tensor.offset == expected[i].at("offset"));
    CHECK(tensor.bytes.size() == expected[i].at("bytes"));
  }
}

TEST_CASE("GGUF: a file cut anywhere is refused, never read beyond its end", "[gguf]") {
  std::string text = SmallFile();
  REQUIRE(ParseGguf(Bytes(text)).ok());
  size_t last_tensor_end = text.size() - 32 + 16;
  for (size_t size = 0; size < last_tensor_end; ++size) {
    INFO(size);
    std::string cut = text.substr(0, size);
    CHECK_FALSE(ParseGguf(Bytes(cut)).ok());
  }
  CHECK_THAT(ParseError(text.substr(0, 30)), Contains("truncated") && Contains("byte"));
  CHECK_THAT(ParseError(text.substr(0, text.size() - 40)), Contains("truncated"));
}

TEST_CASE("GGUF: what is wrong with a file is named", "[gguf]") {
  std::string text = SmallFile();
  CHECK_THAT(ParseError("PK\x03\x04 something"), Contains("not a GGUF file"));
  CHECK_THAT(ParseError(Replaced(text, std::string("GGUF\3\0", 6), std::string("GGUF\1\0", 6))), Contains("version 1"));
  CHECK_THAT(ParseError(Replaced(text, std::string("GGUF\3\0\0\0", 8), std::string("GGUF\0\0\0\3", 8))),
             Contains("big-endian"));
  std::string huge = text;
  huge.replace(8, 8, std::string(8, '\xFF'));  // the number of tensors
  CHECK_THAT(ParseError(huge), Contains("INVALID_ARGUMENT"));
  CHECK_THAT(ParseError(GgufBuilder().Uint32("k", 1).Uint32("k", 2).Build()), Contains("'k' stands twice"));
  CHECK_THAT(ParseError(GgufBuilder().Tensor("x", {2}, {1, 2}).Tensor("x", {2}, {1, 2}).Build()),
             Contains("'x'") && Contains("twice"));
  CHECK_THAT(ParseError(GgufBuilder().Tensor("x", {33}, 8, std::string(68, 'a')).Build()),
             Contains("'x'") && Contains("Q8_0 blocks"));
  CHECK_THAT(ParseError(GgufBuilder().Tensor("x", {2}, 77, "12345678").Build()),
             Contains("UNIMPLEMENTED") && Contains("'x'") && Contains("77"));
  CHECK_THAT(ParseError(GgufBuilder().Tensor("x", {int64_t{1} << 40, int64_t{1} << 40}, {1}).Build()),
             Contains("dimension"));
}

// Writes a Hugging Face model as llama.cpp's converter does: its names, and rows of q and k interleaved.
TEST_CASE("GGUF: permuted rows of q and k are put back", "[gguf]") {
  auto source = ModelSource::Open(GoldenPath("models/llama_tied")).value();
  const ModelConfig& c = source->config();
  GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .Uint32("llama.block_count", static_cast<uint32_t>(c.num_hidden_layers))
      .Uint32("llama.embedding_length", static_cast<uint32_t>(c.hidden_size))
      .Uint32("llama.feed_forward_length", static_cast<uint32_t>(c.intermediate_size))
      .Uint32("llama.attention.head_count", static_cast<uint32_t>(c.num_attention_heads))
      .Uint32("llama.attention.head_count_kv", static_cast<uint32_t>(c.num_key_value_heads))
      .Uint32("llama.attention.key_length", static_cast<uint32_t>(c.head_dim));
  const std::pair<const char*, const char*> names[] = {
      {"model.layers.", "blk."},        {"self_attn.q_proj", "attn_q"},       {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},  {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},        {"mlp.down_proj", "ffn_down"},        {"post_attention_layernorm", "ffn_norm"},
      {"input_layernorm", "attn_norm"}, {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}};
  for (const TensorInfo& tensor : source->tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
    REQUIRE(source->Read(tensor.name, absl::MakeSpan(values)).ok());
    std::string name = tensor.name;
    for (auto [from, to] : names) {
      if (name.find(from) != std::string::npos) name = Replaced(name, from, to);
    }
    std::vector<float> stored = values;
    if (name.find("attn_q") != std::string::npos || name.find("attn_k") != std::string::npos) {
      size_t columns = static_cast<size_t>(tensor.shape[1]), head_dim = static_cast<size_t>(c.head_dim);
      for (size_t row = 0; row < static_cast<size_t>(tensor.shape[0]); ++row) {
        size_t head = row / head_dim, half = row % head_dim / (head_dim / 2), j = row % (head_dim / 2);
        for (size_t k = 0; k < columns; ++k)
          stored[(head * head_dim + 2 * j + half) * columns + k] = values[row * columns + k];
      }
    }
    builder.Tensor(name, tensor.shape, stored);
  }
  std::string dir = MakeTemporaryDirectory("gguf_test").value();
  REQUIRE(WriteFileAtomic(dir + "/model.gguf", builder.Build()).ok());
  auto read = ModelSource::Open(dir + "/model.gguf");
  INFO(StatusText(read.status()));
  REQUIRE(read.ok());
  for (const TensorInfo& tensor : source->tensors()) {
    INFO(tensor.name);
    std::vector<float> a(static_cast<size_t>(tensor.num_elements())), b(a.size());
    REQUIRE(source->Read(tensor.name, absl::MakeSpan(a)).ok());
    REQUIRE((*read)->Read(tensor.name, absl::MakeSpan(b)).ok());
    CHECK(a == b);
  }
  REQUIRE(RemoveTree(dir).ok());
}

}  // namespace troupe
