// SPDX-License-Identifier: Apache-2.0
//
// Causal attention over keys and values in pages, for decoding (one query row a sequence) and prefill (many) alike.

#pragma once

#include <cstdint>

#include "kernels/parallel.h"

namespace troupe::kernels {

// One layer's pages. A page holds page_tokens positions of all key/value heads:
//   keys:   [pages, kv_heads, head_dim, page_tokens]   transposed, so that scores of neighbouring positions are one
//   vector values: [pages, kv_heads, page_tokens, head_dim]
struct PageShape {
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t page_tokens = 0;

  int64_t page_floats() const { return kv_heads * head_dim * page_tokens; }
};

// One sequence: its rows are query rows [row, row + rows) at positions [position, position + rows); position p lies in
// pages[p / page_tokens].
struct SequenceRows {
  const int32_t* pages = nullptr;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t position = 0;
};

// Writes keys and values of the rows into their pages. k, v: [rows, row_stride], kv_heads * head_dim used of each row.
void StoreKeysAndValues(const float* k, const float* v, int64_t row_stride, const SequenceRows* sequences,
                        int64_t count, const PageShape& shape, float* key_pages, float* value_pages);

struct AttentionShape {
  PageShape pages;
  int64_t heads = 0;         // a multiple of kv_heads; head h reads key/value head h / (heads / kv_heads)
  int64_t query_stride = 0;  // floats between rows of q
  int64_t out_stride = 0;
  float scale = 1.0f;  // of the scores, usually 1 / sqrt(head_dim)
};

// out[row, head] = softmax(scale * q . keys[0..p]) values[0..p], p the row's own position, whose key is stored already.
// q: [rows, query_stride], heads * head_dim used; out: [rows, out_stride].
//
// The order of every sum depends on the position alone: a row's result is the same bits whatever else is in the batch,
// however its prompt was cut into chunks, and in whichever pages it lies.
void PagedAttention(const float* q, const float* key_pages, const float* value_pages, const SequenceRows* sequences,
                    int64_t count, const AttentionShape& shape, float* out, const Parallel& parallel = {});

void PagedAttentionReference(const float* q, const float* key_pages, const float* value_pages,
                             const SequenceRows* sequences, int64_t count, const AttentionShape& shape, float* out);

}  // namespace troupe::kernels
