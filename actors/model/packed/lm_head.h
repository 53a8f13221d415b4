// SPDX-License-Identifier: Apache-2.0
// The LM head with log-softmax and gather, by chunks of rows, so that logits never exist for all rows at once.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "actors/model/packed/packed_layout.h"

namespace troupe::packed {

struct LmHead {
  const float* weight = nullptr;  // [vocabulary, width]
  int64_t vocab_size = 0;
  int64_t width = 0;
  float inverse_temperature = 1;
};

// Per scored row: what the backward pass needs to build probabilities again.
struct LmHeadState {
  std::vector<float> lse;      // [rows]: logsumexp of the scaled logits
  std::vector<float> entropy;  // [rows], if it was asked for
  bool logits_kept = false;    // the one chunk there was is still in the scratch
};

// Logits of a chunk take at most this much; rows above it go to another chunk. One chunk of this size already keeps
// the matrix product at full speed.
inline constexpr int64_t kLogitsBytesMax = int64_t{64} << 20;

// hidden: [scored rows, width]. Fills logprobs (and entropy unless null) at the layout's outputs. `scratch` is grown as
// needed and kept by the caller between calls.
LmHeadState LmHeadForward(const LmHead& head, const PackedLayout& layout, const float* hidden, float* logprobs,
                          float* entropy, std::vector<float>& scratch);

// d_logprobs, d_entropy (empty: none): per output. Overwrites dhidden [scored rows, width] and adds to or writes
// dweight. `scratch` may be the forward pass's; if it was used in between, clear state.logits_kept.
void LmHeadBackward(const LmHead& head, const PackedLayout& layout, const LmHeadState& state, const float* hidden,
                    absl::Span<const float> d_logprobs, absl::Span<const float> d_entropy, float* dhidden,
                    float* dweight, bool accumulate, std::vector<float>& scratch);

}  // namespace troupe::packed
