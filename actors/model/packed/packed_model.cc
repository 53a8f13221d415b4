// SPDX-License-Identifier: Apache-2.0
// PackedModel for the Llama architecture: the order of the passes. The arithmetic is in gemm.h, blocks.h, attention.h
// and lm_head.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "actors/model/llama/llama_parameters.h"
#include "actors/model/packed/attention.h"
#include "actors/model/packed/blocks.h"
#include "actors/model/packed/gemm.h"
#include "actors/model/packed/lm_head.h"
#include "actors/model/packed/packed_layout.h"
#include "actors/model/packed/packed_logprobs.h"
#include "actors/model/rope_frequencies.h"

namespace troupe {

using packed::AttentionShape;
using packed::PackedLayout;

// Memory that outlives a pass: a first touch of fresh pages costs more than the arithmetic of a small layer.
class PackedTape {
 public:
  struct Layer {
    std::vector<float> input;      // [rows, hidden]: the residual stream before attention
    std::vector<float> qkv;        // [rows, row_width], rotated
    std::vector<float> attention;  // [rows, query_width]
    std::vector<float> lse;        // [rows, heads]
    std::vector<float> middle;     // [rows, hidden]: the residual stream before the MLP
    std::vector<float> gate_up;    // [rows, 2 intermediate]
  };

  PackedLayout layout;
  packed::LmHeadState head_state;
  float inverse_temperature = 1;
  std::vector<float> cosines, sines;  // [rows, head_dim / 2]
  std::vector<Layer> layers;          // one, used over and over, if nothing is kept
  std::vector<float> residual;        // [rows, hidden]: after the last layer
  std::vector<float> scored;          // [scored rows, hidden]: before the final norm
  std::vector<float> scored_normed;
  uint64_t logits_owner = 0;  // pass whose logits may still be in the model's scratch
};

namespace {

float* Grow(std::vector<float>& buffer, int64_t count) {
  if (buffer.size() < static_cast<size_t>(count)) buffer.resize(static_cast<size_t>(count));
  return buffer.data();
}

class LlamaPackedModel final : public PackedModel {
 public:
  LlamaPackedModel(const ModelConfig& config, const ModelWeights& weights, LlamaParameters pointers)
      : config_(config), handle_(weights), w_(std::move(pointers)) {
    shape_ = {.heads = config.num_attention_heads, .kv_heads = config.num_key_value_heads, .head_dim = config.head_dim};
    eps_ = static_cast<float>(config.rms_norm_eps);
  }

  absl::StatusOr<PackedScores> Score(absl::Span<const PackedGroup> groups, const PackedOptions& options) override {
    return Run(groups, options, /*keep=*/false, scoring_);
  }

  absl::StatusOr<PackedScores> Forward(absl::Span<const PackedGroup> groups, const PackedOptions& options,
                                       std::shared_ptr<PackedTape>* tape) override {
    if (spare_ == nullptr || spare_.use_count() > 1) spare_ = std::make_shared<PackedTape>();
    *tape = spare_;  // taken up again when the caller has let it go
    return Run(groups, options, /*keep=*/true, **tape);
  }

  void Backward(PackedTape& tape, absl::Span<const float> d_logprobs, absl::Span<const float> d_entropy,
                bool accumulate, ModelWeights& gradients) override;

 private:
  absl::StatusOr<PackedScores> Run(absl::Span<const PackedGroup> groups, const PackedOptions& options, bool keep,
                                   PackedTape& tape);
  void Angles(PackedTape& tape, absl::Span<const PackedGroup> groups);
  void Embed(const PackedLayout& layout, float* residual);
  void ForwardLayer(const LlamaLayerParameters& w, const PackedTape& tape, PackedTape::Layer& kept, float* residual);
  void BackwardLayer(const LlamaLayerParameters& w, const LlamaLayerParameters& g, PackedTape& tape,
                     PackedTape::Layer& kept, bool accumulate);
  void BackwardHead(PackedTape& tape, absl::Span<const float> d_logprobs, absl::Span<const float> d_entropy,
                    bool accumulate, const LlamaParameters& g);
  packed::LmHead Head(const PackedTape& tape) const {
    return {.weight = w_.lm_head,
            .vocab_size = config_.vocab_size,
            .width = config_.hidden_size,
            .inverse_temperature = tape.inverse_temperature};
  }

  const ModelConfig config_;
  const ModelWeights handle_;  // keeps the pointers valid
  const LlamaParameters w_;
  AttentionShape shape_;
  float eps_ = 0;

  PackedTape scoring_;
  std::shared_ptr<PackedTape> spare_;
  uint64_t passes_ = 0;
  std::vector<float> logits_;
  std::vector<float> normed_, inner_, inner_grad_, grad_, branch_grad_, qkv_grad_;  // scratch of one layer
};

void LlamaPackedModel::Angles(PackedTape& tape, absl::Span<const PackedGroup> groups) {
  const int64_t half = config_.head_dim / 2;
  float* cosines = Grow(tape.cosines, tape.layout.rows() * half);
  float* sines = Grow(tape.sines, tape.layout.rows() * half);
  int64_t row = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t response = groups[g].responses.empty() ? 0 : static_cast<int64_t>(groups[g].responses[0].size());
    const RopeFrequencies rope =
        ComputeRopeFrequencies(config_, static_cast<int64_t>(groups[g].prompt.size()) + response);
    for (const int64_t end = row + PackedTokens(groups[g]); row < end; ++row) {
      for (int64_t i = 0; i < half; ++i) {
        const float angle =
            static_cast<float>(tape.layout.positions[static_cast<size_t>(row)]) * rope.inv_freq[static_cast<size_t>(i)];
        cosines[row * half + i] = std::cos(angle) * rope.attention_scaling;
        sines[row * half + i] = std::sin(angle) * rope.attention_scaling;
      }
    }
  }
}

void LlamaPackedModel::Embed(const PackedLayout& layout, float* residual) {
  const int64_t hidden = config_.hidden_size;
  for (int64_t row = 0; row < layout.rows(); ++row) {
    std::memcpy(residual + row * hidden, w_.embedding + layout.tokens[static_cast<size_t>(row)] * hidden,
                static_cast<size_t>(hidden) * sizeof(float));
  }
}

void LlamaPackedModel::ForwardLayer(const LlamaLayerParameters& w, const PackedTape& tape, PackedTape::Layer& kept,
                                    float* residual) {
  const int64_t rows = tape.layout.rows();
  const int64_t hidden = config_.hidden_size;
  const int64_t inner = config_.intermediate_size;
  float* normed = Grow(normed_, rows * hidden);
  float* qkv = Grow(kept.qkv, rows * shape_.row_width());
  float* attention = Grow(kept.attention, rows * shape_.query_width());
  const auto keep_residual = [&](std::vector<float>& copy) {
    std::memcpy(Grow(copy, rows * hidden), residual, static_cast<size_t>(rows * hidden) * sizeof(float));
  };

  keep_residual(kept.input);
  packed::RmsNorm(residual, w.input_norm, eps_, normed, rows, hidden);
  packed::Linear(normed, w.qkv, w.qkv_bias, qkv, rows, hidden, shape_.row_width());
  packed::Rope(qkv, shape_.row_width(), tape.cosines.data(), tape.sines.data(), rows, shape_.heads + shape_.kv_heads,
               shape_.head_dim, /*inverse=*/false);
  packed::Attention(tape.layout.groups, shape_, qkv, attention, Grow(kept.lse, rows * shape_.heads));
  packed::Linear(attention, w.o, w.o_bias, normed, rows, shape_.query_width(), hidden);
  packed::AddInPlace(normed, residual, rows * hidden);

  keep_residual(kept.middle);
  float* gate_up = Grow(kept.gate_up, rows * 2 * inner);
  float* activated = Grow(inner_, rows * inner);
  packed::RmsNorm(residual, w.post_norm, eps_, normed, rows, hidden);
  packed::Linear(normed, w.gate_up, w.gate_up_bias, gate_up, rows, hidden, 2 * inner);
  packed::SiluMul(gate_up, activated, rows, inner);
  packed::Linear(activated, w.down, w.down_bias, normed, rows, inner, hidden);
  packed::AddInPlace(normed, residual, rows * hidden);
}

absl::StatusOr<PackedScores> LlamaPackedModel::Run(absl::Span<const PackedGroup> groups, const PackedOptions& options,
                                                   bool keep, PackedTape& tape) {
  if (!(options.temperature > 0)) return absl::InvalidArgumentError("the temperature must be greater than 0");
  absl::StatusOr<PackedLayout> layout = packed::LayOut(groups, config_);
  if (!layout.ok()) return layout.status();
  tape.layout = *std::move(layout);
  tape.inverse_temperature = static_cast<float>(1.0 / options.temperature);
  const int64_t rows = tape.layout.rows();
  const int64_t hidden = config_.hidden_size;
  tape.layers.resize(keep ? w_.layers.size() : 1);
  float* residual = Grow(tape.residual, rows * hidden);
  Angles(tape, groups);
  Embed(tape.layout, residual);
  for (size_t i = 0; i < w_.layers.size(); ++i) ForwardLayer(w_.layers[i], tape, tape.layers[keep ? i : 0], residual);

  const int64_t scored_rows = static_cast<int64_t>(tape.layout.scored.size());
  float* scored = Grow(tape.scored, scored_rows * hidden);
  float* scored_normed = Grow(tape.scored_normed, scored_rows * hidden);
  for (int64_t i = 0; i < scored_rows; ++i) {
    std::memcpy(scored + i * hidden, residual + tape.layout.scored[static_cast<size_t>(i)].row * hidden,
                static_cast<size_t>(hidden) * sizeof(float));
  }
  packed::RmsNorm(scored, w_.norm, eps_, scored_normed, scored_rows, hidden);
  PackedScores scores;
  scores.logprobs.resize(static_cast<size_t>(tape.layout.outputs));
  if (options.entropy) scores.entropy.resize(static_cast<size_t>(tape.layout.outputs));
  tape.head_state = packed::LmHeadForward(Head(tape), tape.layout, scored_normed, scores.logprobs.data(),
                                          options.entropy ? scores.entropy.data() : nullptr, logits_);
  tape.logits_owner = ++passes_;
  return scores;
}

// Fills grad_ with d loss / d residual after the last layer.
void LlamaPackedModel::BackwardHead(PackedTape& tape, absl::Span<const float> d_logprobs,
                                    absl::Span<const float> d_entropy, bool accumulate, const LlamaParameters& g) {
  const int64_t rows = tape.layout.rows();
  const int64_t hidden = config_.hidden_size;
  const int64_t scored_rows = static_cast<int64_t>(tape.layout.scored.size());
  if (tape.logits_owner != passes_) tape.head_state.logits_kept = false;
  ++passes_;  // the logits are overwritten
  std::vector<float> dnormed(static_cast<size_t>(scored_rows * hidden));
  std::vector<float> dscored(static_cast<size_t>(scored_rows * hidden));
  packed::LmHeadBackward(Head(tape), tape.layout, tape.head_state, tape.scored_normed.data(), d_logprobs, d_entropy,
                         dnormed.data(), g.lm_head, accumulate, logits_);
  packed::RmsNormBackward(dnormed.data(), tape.scored.data(), w_.norm, eps_, dscored.data(), g.norm, scored_rows,
                          hidden, accumulate);
  float* grad = Grow(grad_, rows * hidden);
  std::memset(grad, 0, static_cast<size_t>(rows * hidden) * sizeof(float));
  for (int64_t i = 0; i < scored_rows; ++i) {
    std::memcpy(grad + tape.layout.scored[static_cast<size_t>(i)].row * hidden, dscored.data() + i * hidden,
                static_cast<size_t>(hidden) * sizeof(float));
  }
}

void LlamaPackedModel::BackwardLayer(const LlamaLayerParameters& w, const LlamaLayerParameters& g, PackedTape& tape,
                                     PackedTape::Layer& kept, bool accumulate) {
  const int64_t rows = tape.layout.rows();
  const int64_t hidden = config_.hidden_size;
  const int64_t inner = config_.intermediate_size;
  float* grad = grad_.data();
  float* normed = Grow(normed_, rows * hidden);
  float* branch = Grow(branch_grad_, rows * std::max(hidden, shape_.query_width()));
  float* activated = Grow(inner_, rows * inner);
  float* dactivated = Grow(inner_grad_, rows * inner);

  packed::SiluMul(kept.gate_up.data(), activated, rows, inner);
  packed::LinearGradWeight(grad, activated, g.down, g.down_bias, rows, inner, hidden, accumulate);
  packed::LinearGradInput(grad, w.down, dactivated, rows, inner, hidden, /*accumulate=*/false);
  packed::SiluMulBackward(dactivated, kept.gate_up.data(), rows, inner);
  packed::RmsNorm(kept.middle.data(), w.post_norm, eps_, normed, rows, hidden);
  packed::LinearGradWeight(kept.gate_up.data(), normed, g.gate_up, g.gate_up_bias, rows, hidden, 2 * inner, accumulate);
  packed::LinearGradInput(kept.gate_up.data(), w.gate_up, branch, rows, hidden, 2 * inner, /*accumulate=*/false);
  packed::RmsNormBackward(branch, kept.middle.data(), w.post_norm, eps_, grad, g.post_norm, rows, hidden, accumulate);

  float* dqkv = Grow(qkv_grad_, rows * shape_.row_width());
  packed::LinearGradWeight(grad, kept.attention.data(), g.o, g.o_bias, rows, shape_.query_width(), hidden, accumulate);
  packed::LinearGradInput(grad, w.o, branch, rows, shape_.query_width(), hidden, /*accumulate=*/false);
  packed::AttentionBackward(tape.layout.groups, shape_, kept.qkv.data(), kept.attention.data(), kept.lse.data(), branch,
                            dqkv);
  packed::Rope(dqkv, shape_.row_width(), tape.cosines.data(), tape.sines.data(), rows, shape_.heads + shape_.kv_heads,
               shape_.head_dim, /*inverse=*/true);
  packed::RmsNorm(kept.input.data(), w.input_norm, eps_, normed, rows, hidden);
  packed::LinearGradWeight(dqkv, normed, g.qkv, g.qkv_bias, rows, hidden, shape_.row_width(), accumulate);
  packed::LinearGradInput(dqkv, w.qkv, branch, rows, hidden, shape_.row_width(), /*accumulate=*/false);
  packed::RmsNormBackward(branch, kept.input.data(), w.input_norm, eps_, grad, g.input_norm, rows, hidden, accumulate);
}

void LlamaPackedModel::Backward(PackedTape& tape, absl::Span<const float> d_logprobs, absl::Span<const float> d_entropy,
                                bool accumulate, ModelWeights& gradients) {
  const LlamaParameters g = LlamaParametersOf(config_, gradients).value();  // same layout as the weights: cannot fail
  const int64_t hidden = config_.hidden_size;
  BackwardHead(tape, d_logprobs, d_entropy, accumulate, g);
  for (size_t i = w_.layers.size(); i-- > 0;) {
    BackwardLayer(w_.layers[i], g.layers[i], tape, tape.layers[i], accumulate);
  }
  if (g.lm_head != g.embedding && !accumulate) {
    std::memset(g.embedding, 0, static_cast<size_t>(config_.vocab_size * hidden) * sizeof(float));
  }
  for (int64_t row = 0; row < tape.layout.rows(); ++row) {
    float* to = g.embedding + tape.layout.tokens[static_cast<size_t>(row)] * hidden;
    packed::AddInPlace(grad_.data() + row * hidden, to, hidden);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedModel>> PackedModel::Create(const ModelConfig& config,
                                                                 const ModelWeights& weights) {
  absl::StatusOr<LlamaParameters> pointers = LlamaParametersOf(config, weights);
  if (!pointers.ok()) return pointers.status();
  return std::make_unique<LlamaPackedModel>(config, weights, *std::move(pointers));
}

}  // namespace troupe
