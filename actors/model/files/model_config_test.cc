// SPDX-License-Identifier: Apache-2.0
// config.json: both spellings, every rope type, and what is wrong with one.
#include "actors/model/files/model_config.h"

#include <string>

#include "catch2/catch.hpp"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tests/golden/golden.h"

namespace troupe {
namespace {

using Catch::Matchers::Contains;

constexpr const char* kLlamas[] = {
    "llama_bf16",      "llama_bias_headdim",     "llama_rope_dynamic",     "llama_rope_linear", "llama_rope_llama3",
    "llama_rope_yarn", "llama_rope_yarn_factor", "llama_rope_yarn_mscale", "llama_tied",        "llama_untied"};

nlohmann::json ReadConfig(const std::string& model, const std::string& file) {
  return nlohmann::json::parse(ReadFile(GoldenPath("models/" + model + "/" + file), 1 << 20).value());
}

std::string ErrorWith(const char* key, nlohmann::json value) {
  nlohmann::json json = ReadConfig("llama_untied", "config_v4.json");
  json[key] = std::move(value);
  return StatusText(ParseModelConfig(json).status());
}

}  // namespace

TEST_CASE("ModelConfig: Transformers 4's and 5's spellings are the same model", "[model_config]") {
  for (const char* name : kLlamas) {
    INFO(name);
    auto v4 = ParseModelConfig(ReadConfig(name, "config_v4.json")),
         v5 = ParseModelConfig(ReadConfig(name, "config.json"));
    INFO(StatusText(v4.status()) << " " << StatusText(v5.status()));
    REQUIRE(v4.ok());
    REQUIRE(v5.ok());
    CHECK(*v4 == *v5);
    auto again = ParseModelConfig(nlohmann::json(ModelConfigToJson(*v4)));
    REQUIRE(again.ok());
    CHECK(*again == *v4);
  }
}

TEST_CASE("ModelConfig: rope scaling is read with its fields", "[model_config]") {
  RopeScaling llama3 = ParseModelConfig(ReadConfig("llama_rope_llama3", "config.json")).value().rope_scaling;
  CHECK(llama3.type == RopeType::kLlama3);
  CHECK(llama3.factor == 8.0);
  CHECK(llama3.original_max_position_embeddings == 64);
  RopeScaling yarn = ParseModelConfig(ReadConfig("llama_rope_yarn_mscale", "config.json")).value().rope_scaling;
  CHECK(yarn.type == RopeType::kYarn);
  CHECK(yarn.mscale == 0.7);
  CHECK_FALSE(yarn.truncate);
  RopeScaling factor = ParseModelConfig(ReadConfig("llama_rope_yarn_factor", "config.json")).value().rope_scaling;
  CHECK(factor.attention_factor == 1.3);
  CHECK(factor.beta_fast == 8.0);
}

TEST_CASE("ModelConfig: another architecture is refused, with those supported", "[model_config]") {
  for (const char* name : {"qwen2", "gemma2", "mixtral", "mistral_sliding"}) {
    absl::Status status = ParseModelConfig(ReadConfig(name, "config.json")).status();
    CHECK(status.code() == absl::StatusCode::kUnimplemented);
    CHECK_THAT(MessageOf(status), Contains("supported: llama"));
  }
}

TEST_CASE("ModelConfig: what is wrong is named with its value", "[model_config]") {
  CHECK_THAT(ErrorWith("num_key_value_heads", 3),
             Contains("num_attention_heads (4)") && Contains("num_key_value_heads (3)"));
  CHECK_THAT(ErrorWith("hidden_size", "big"), Contains("hidden_size is \"big\"") && Contains("whole number"));
  CHECK_THAT(ErrorWith("hidden_size", -32), Contains("hidden_size is -32"));
  CHECK_THAT(ErrorWith("num_hidden_layers", 1e18), Contains("num_hidden_layers"));
  CHECK_THAT(ErrorWith("num_hidden_layers", 1'000'000'000), Contains("between 1 and 4096"));
  CHECK_THAT(ErrorWith("head_dim", 15), Contains("head_dim is 15") && Contains("even"));
  CHECK_THAT(ErrorWith("eos_token_id", 128), Contains("eos_token_id is 128") && Contains("vocabulary of 128"));
  CHECK_THAT(ErrorWith("hidden_act", "gelu"), Contains("'gelu'"));
  CHECK_THAT(ErrorWith("rope_scaling", {{"rope_type", "longrope"}}), Contains("'longrope'") && Contains("yarn"));
  CHECK_THAT(ErrorWith("rope_scaling", {{"rope_type", "linear"}}), Contains("factor is missing"));
  CHECK_THAT(ErrorWith("rms_norm_eps", 0), Contains("rms_norm_eps"));
  CHECK_THAT(ErrorWith("torch_dtype", "int8"), Contains("int8"));
  CHECK_THAT(StatusText(ParseModelConfig(std::string("{\"model_type\": \"llama\"}")).status()),
             Contains("vocab_size is missing"));
  CHECK_THAT(StatusText(ParseModelConfig(std::string("{")).status()), Contains("JSON"));
}

TEST_CASE("ModelConfig: end ids of both files are joined", "[model_config]") {
  ModelConfig config = ParseModelConfig(ReadConfig("llama_untied", "config.json")).value();
  REQUIRE(MergeGenerationConfig({{"eos_token_id", {2, 5, 9}}}, config).ok());
  CHECK(config.eos_token_ids == std::vector<int64_t>{2, 5, 9});
  CHECK(GenerationConfigToJson(config).at("eos_token_id") == nlohmann::json({2, 5, 9}));
  CHECK_FALSE(MergeGenerationConfig({{"eos_token_id", 4000}}, config).ok());
}

}  // namespace troupe
