// SPDX-License-Identifier: Apache-2.0
// Causal attention over packed groups: a prompt sees itself, a response sees its prompt and itself. Probabilities are
// not kept; the backward pass computes them again from each query's log-sum-exp.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/model/packed/packed_layout.h"

namespace troupe::packed {

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // query head h uses key/value head h / (heads / kv_heads)
  int64_t head_dim = 0;

  int64_t query_width() const { return heads * head_dim; }
  int64_t row_width() const { return (heads + 2 * kv_heads) * head_dim; }
};

// qkv: [rows, q heads then k heads then v heads], rotated. out: [rows, heads * head_dim]; lse: [rows, heads].
void Attention(const std::vector<GroupRows>& groups, const AttentionShape& shape, const float* qkv, float* out,
               float* lse);

// dqkv: [rows, row_width], overwritten. The prompt's keys and values gather from all responses.
void AttentionBackward(const std::vector<GroupRows>& groups, const AttentionShape& shape, const float* qkv,
                       const float* out, const float* lse, const float* dout, float* dqkv);

}  // namespace troupe::packed
