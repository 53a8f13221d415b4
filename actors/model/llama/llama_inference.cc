// SPDX-License-Identifier: Apache-2.0
#include "actors/model/llama/llama_inference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "actors/model/intra_op.h"
#include "actors/model/rope_frequencies.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/silu_mul/silu_mul.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

// Room for `size` floats; what was there is not kept.
float* Room(std::vector<float>& buffer, int64_t size) {
  if (static_cast<int64_t>(buffer.size()) < size) buffer.resize(static_cast<size_t>(size));
  return buffer.data();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LlamaInference>> LlamaInference::Create(const ModelConfig& config, ModelWeights weights,
                                                                       int threads) {
  if (config.model_type != "llama") {
    return absl::UnimplementedError(
        absl::StrCat("inference of model type '", config.model_type, "' is not there yet; llama is"));
  }
  if (config.hidden_act != "silu") {
    return absl::UnimplementedError(absl::StrCat("hidden_act '", config.hidden_act, "' is not there yet; silu is"));
  }
  if (config.rope_scaling.type == RopeType::kDynamic) {
    return absl::UnimplementedError(
        "rope type 'dynamic' is not there yet in inference: its angles change with the length, so that "
        "cached keys would be of another model; default, linear, llama3 and yarn are");
  }
  if (threads < 1)
    return absl::InvalidArgumentError(absl::StrCat("num_threads is ", threads, "; it must be at least 1"));
  std::unique_ptr<LlamaInference> model(new LlamaInference(config, threads));
  TROUPE_RETURN_IF_ERROR(model->SetWeights(std::move(weights)));
  return model;
}

LlamaInference::LlamaInference(const ModelConfig& config, int threads)
    : config_(config), parallel_(IntraOpParallel(threads)) {}

absl::Status LlamaInference::SetWeights(ModelWeights weights) {
  TROUPE_ASSIGN_OR_RETURN(LlamaParameters parameters, LlamaParametersOf(config_, weights));
  parameters_ = std::move(parameters);
  weights_ = std::move(weights);
  return absl::OkStatus();
}

std::span<const float> LlamaInference::Forward(const ForwardBatch& batch, KvCache& cache) {
  SetIntraOpThreads(parallel_.threads());
  GrowRope(*std::max_element(batch.positions.begin(), batch.positions.end()) + 1);
  Embed(batch);
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) Layer(batch, layer, cache);
  return Head(batch);
}

void LlamaInference::Embed(const ForwardBatch& batch) {
  const int64_t hidden = config_.hidden_size;
  float* residual = Room(residual_, static_cast<int64_t>(batch.tokens.size()) * hidden);
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    std::copy_n(parameters_.embedding + batch.tokens[row] * hidden, hidden, residual + row * hidden);
  }
}

void LlamaInference::Layer(const ForwardBatch& batch, int64_t layer, KvCache& cache) {
  const LlamaLayerParameters& p = parameters_.layers[layer];
  const int64_t rows = static_cast<int64_t>(batch.tokens.size());
  const int64_t hidden = config_.hidden_size;
  const int64_t q_width = config_.num_attention_heads * config_.head_dim;
  const int64_t kv_width = config_.num_key_value_heads * config_.head_dim;
  const int64_t qkv_width = q_width + 2 * kv_width;
  const kernels::RmsNormShape norm{rows, hidden, static_cast<float>(config_.rms_norm_eps)};
  float* residual = residual_.data();            // [rows, hidden]
  float* normed = Room(normed_, rows * hidden);  // [rows, hidden]
  float* projected = Room(projected_, rows * std::max(qkv_width, 2 * config_.intermediate_size));
  float* mixed = Room(mixed_, rows * std::max(q_width, config_.intermediate_size));

  if (layer == 0) {
    kernels::RmsNorm(residual, p.input_norm, normed, norm, parallel_);
  } else {
    kernels::AddRmsNorm(normed, p.input_norm, residual, normed, norm, parallel_);  // the feed-forward layer before
  }
  kernels::Linear(normed, p.qkv, p.qkv_bias, projected, {rows, hidden, qkv_width}, parallel_);
  kernels::Rope(projected, batch.positions.data(), cos_.data(), sin_.data(),
                {.rows = rows,
                 .row_stride = qkv_width,
                 .heads = config_.num_attention_heads + config_.num_key_value_heads,
                 .head_dim = config_.head_dim},
                parallel_);
  const int64_t sequences = static_cast<int64_t>(batch.sequences.size());
  kernels::StoreKeysAndValues(projected + q_width, projected + q_width + kv_width, qkv_width, batch.sequences.data(),
                              sequences, cache.page_shape(), cache.keys(layer), cache.values(layer));
  kernels::PagedAttention(projected, cache.keys(layer), cache.values(layer), batch.sequences.data(), sequences,
                          {.pages = cache.page_shape(),
                           .heads = config_.num_attention_heads,
                           .query_stride = qkv_width,
                           .out_stride = q_width,
                           .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim))},
                          mixed, parallel_);
  kernels::Linear(mixed, p.o, p.o_bias, normed, {rows, q_width, hidden}, parallel_);
  kernels::AddRmsNorm(normed, p.post_norm, residual, normed, norm, parallel_);
  kernels::Linear(normed, p.gate_up, p.gate_up_bias, projected, {rows, hidden, 2 * config_.intermediate_size},
                  parallel_);
  kernels::SiluMul(projected, mixed, rows, config_.intermediate_size, parallel_);
  kernels::Linear(mixed, p.down, p.down_bias, normed, {rows, config_.intermediate_size, hidden}, parallel_);
}

std::span<const float> LlamaInference::Head(const ForwardBatch& batch) {
  const int64_t hidden = config_.hidden_size;
  const int64_t rows = static_cast<int64_t>(batch.logit_rows.size());
  head_input_.resize(static_cast<size_t>(rows * hidden));
  for (int64_t row = 0; row < rows; ++row) {
    const float* residual = residual_.data() + batch.logit_rows[row] * hidden;
    const float* last = normed_.data() + batch.logit_rows[row] * hidden;  // of the last feed-forward layer
    std::transform(residual, residual + hidden, last, head_input_.data() + row * hidden, std::plus<float>());
  }
  const kernels::RmsNormShape norm{rows, hidden, static_cast<float>(config_.rms_norm_eps)};
  kernels::RmsNorm(head_input_.data(), parameters_.norm, head_input_.data(), norm, parallel_);
  float* logits = Room(logits_, rows * config_.vocab_size);
  kernels::Linear(head_input_.data(), parameters_.lm_head, nullptr, logits, {rows, hidden, config_.vocab_size},
                  parallel_);
  return {logits, static_cast<size_t>(rows * config_.vocab_size)};
}

// Angles in float32, as in Transformers.
void LlamaInference::GrowRope(int64_t positions) {
  const int64_t half = config_.head_dim / 2;
  const int64_t have = static_cast<int64_t>(cos_.size()) / half;
  if (positions <= have) return;
  positions = std::min(std::max(positions, 2 * have), std::max(positions, config_.max_position_embeddings));
  const RopeFrequencies frequencies = ComputeRopeFrequencies(config_);
  cos_.resize(static_cast<size_t>(positions * half));
  sin_.resize(cos_.size());
  for (int64_t position = have; position < positions; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies.inv_freq[i];
      cos_[position * half + i] = std::cos(angle) * frequencies.attention_scaling;
      sin_[position * half + i] = std::sin(angle) * frequencies.attention_scaling;
    }
  }
}

}  // namespace troupe
