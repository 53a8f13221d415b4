// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of responses, without padding and with a group's prompt computed once, forward and backward.
//
// The tokens of a group lie in one row: [prompt][response 1][response 2]... Positions of each response start after the
// prompt, and a response sees the prompt and itself. The first token of every response is scored from the prompt's last
// hidden state. No [tokens, vocabulary] array is kept: the LM head runs by chunks and again in the backward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "actors/model/files/model_config.h"
#include "actors/model/weights.h"

namespace troupe {

// One prompt and its responses. The spans must outlive the tape.
struct PackedGroup {
  absl::Span<const int32_t> prompt;                  // at least one token
  std::vector<absl::Span<const int32_t>> responses;  // may be empty ones
};

struct PackedOptions {
  double temperature = 1.0;  // logits are divided by it
  bool entropy = false;      // also the entropy at every response token
};

// One value a response token, in the order of groups, responses, tokens.
struct PackedScores {
  std::vector<float> logprobs;
  std::vector<float> entropy;  // empty unless asked for
};

// What Backward needs of a forward pass: per token and layer about (3 hidden + qkv + 2 intermediate) floats. Opaque.
class PackedTape;

// A differentiable view of a model. Keeps a handle of `weights` and reads them at every call, so that an optimizer may
// change them in between. Not thread-safe; computes on the calling thread and LibTorch's intra-op threads.
class PackedModel {
 public:
  // InvalidArgument if the weights are not float32 or do not fit the config.
  static absl::StatusOr<std::unique_ptr<PackedModel>> Create(const ModelConfig& config, const ModelWeights& weights);
  virtual ~PackedModel() = default;

  // InvalidArgument for an empty prompt, a token outside the vocabulary, a row beyond max_position_embeddings.
  virtual absl::StatusOr<PackedScores> Score(absl::Span<const PackedGroup> groups, const PackedOptions& options) = 0;

  // The same numbers, bit for bit, and the tape for Backward. A group's numbers do not depend on the other groups of
  // the pass either (measured with LibTorch's BLAS for passes of at least 16 tokens; below, last bits may differ), so
  // that the KL to a reference with equal weights is exactly 0.
  virtual absl::StatusOr<PackedScores> Forward(absl::Span<const PackedGroup> groups, const PackedOptions& options,
                                               std::shared_ptr<PackedTape>* tape) = 0;

  // Adds (accumulate) or writes d loss / d parameter into `gradients`, which has the layout of the weights, from
  // d loss / d logprobs and d loss / d entropy (empty: none). Call once a tape, before the weights change.
  virtual void Backward(PackedTape& tape, absl::Span<const float> d_logprobs, absl::Span<const float> d_entropy,
                        bool accumulate, ModelWeights& gradients) = 0;
};

// Tokens that a group costs: its prompt once and its responses.
int64_t PackedTokens(const PackedGroup& group);

}  // namespace troupe
