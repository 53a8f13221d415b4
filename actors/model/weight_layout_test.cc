// SPDX-License-Identifier: Apache-2.0

#include "actors/model/weight_layout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "actors/model/weights.h"
#include "catch2/catch.hpp"

namespace troupe {
namespace {

ModelConfig Config() {
  ModelConfig config;
  config.vocab_size = 17;
  config.hidden_size = 12;
  config.intermediate_size = 20;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.num_key_value_heads = 1;
  config.head_dim = 4;
  config.attention_bias = true;
  config.mlp_bias = true;
  return config;
}

}  // namespace

TEST_CASE("WeightLayout: every parameter once, nothing overlaps, groups start at 64 bytes", "[weights]") {
  for (ElementType type : {ElementType::kF32, ElementType::kBF16}) {
    const WeightLayout layout = LayoutOf(Config(), type).value();
    const std::vector<ParameterShape> shapes = ParameterShapes(Config());
    REQUIRE(layout.entries.size() == shapes.size());
    for (const ParameterShape& parameter : shapes) {
      const WeightEntry* entry = layout.Find(parameter.name);
      REQUIRE(entry != nullptr);
      CHECK(entry->shape == parameter.shape);
      CHECK(entry->size_bytes == entry->elements() * ElementBytes(type));
    }
    int64_t end = 0;
    for (const WeightEntry& entry : layout.entries) {
      CHECK((entry.offset_bytes == end || (entry.offset_bytes > end && entry.offset_bytes % 64 == 0)));
      end = entry.offset_bytes + entry.size_bytes;
    }
    CHECK(layout.total_bytes >= end);
    CHECK(layout.total_bytes % 64 == 0);
    CHECK(layout.Find("no.such.weight") == nullptr);
  }
}

TEST_CASE("WeightLayout: q, k, v and gate, up are neighbours without a gap", "[weights]") {
  const WeightLayout layout = LayoutOf(Config(), ElementType::kF32).value();
  const auto follows = [&](const char* first, const char* second) {
    const WeightEntry* a = layout.Find(first);
    const WeightEntry* b = layout.Find(second);
    return a != nullptr && b != nullptr && b->offset_bytes == a->offset_bytes + a->size_bytes;
  };
  CHECK(follows("model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight"));
  CHECK(follows("model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight"));
  CHECK(follows("model.layers.1.self_attn.q_proj.bias", "model.layers.1.self_attn.k_proj.bias"));
  CHECK(follows("model.layers.1.self_attn.k_proj.bias", "model.layers.1.self_attn.v_proj.bias"));
  CHECK(follows("model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight"));
  CHECK(follows("model.layers.0.mlp.gate_proj.bias", "model.layers.0.mlp.up_proj.bias"));
}

TEST_CASE("WeightLayout: impossible sizes are refused", "[weights]") {
  ModelConfig config = Config();
  config.hidden_size = 0;
  CHECK(LayoutOf(config, ElementType::kF32).status().code() == absl::StatusCode::kInvalidArgument);
  config = Config();
  config.vocab_size = config.hidden_size = int64_t{1} << 40;
  CHECK(LayoutOf(config, ElementType::kF32).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("ModelWeights: maps memory without a copy and keeps it alive", "[weights]") {
  const WeightLayout layout = LayoutOf(Config(), ElementType::kF32).value();
  const ModelWeights owner = ModelWeights::Allocate(layout);
  auto released = std::make_shared<bool>(false);
  std::shared_ptr<const void> keep(owner.bytes().data(), [released, owner](const void*) { *released = true; });
  {
    const ModelWeights mapped = ModelWeights::Map(layout, owner.bytes(), std::move(keep)).value();
    std::span<float> norm = owner.Float32("model.norm.weight");
    std::iota(norm.begin(), norm.end(), 1.0f);
    const ModelWeights copy = mapped;
    CHECK(copy.Float32("model.norm.weight").data() == norm.data());
    CHECK(copy.Float32("model.norm.weight")[11] == 12.0f);
    CHECK(copy.Float32("no.such.weight").empty());
    CHECK_FALSE(*released);
  }
  CHECK(*released);
  CHECK(ModelWeights::Map(layout, owner.bytes().first(64), nullptr).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(ModelWeights::Map({{}, 64}, owner.bytes().subspan(4), nullptr).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

}  // namespace troupe
