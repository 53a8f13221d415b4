// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/paged_attention/paged_attention.h"

namespace troupe::kernels {
namespace {

float Key(const float* pages, const SequenceRows& sequence, int64_t position, int64_t head, int64_t dim,
          const PageShape& shape) {
  const int64_t page = sequence.pages[position / shape.page_tokens];
  return pages[((page * shape.kv_heads + head) * shape.head_dim + dim) * shape.page_tokens +
               position % shape.page_tokens];
}

float Value(const float* pages, const SequenceRows& sequence, int64_t position, int64_t head, int64_t dim,
            const PageShape& shape) {
  const int64_t page = sequence.pages[position / shape.page_tokens];
  return pages[((page * shape.kv_heads + head) * shape.page_tokens + position % shape.page_tokens) * shape.head_dim +
               dim];
}

}  // namespace

void StoreKeysAndValues(const float* k, const float* v, int64_t row_stride, const SequenceRows* sequences,
                        int64_t count, const PageShape& shape, float* key_pages, float* value_pages) {
  for (const SequenceRows* sequence = sequences; sequence != sequences + count; ++sequence) {
    for (int64_t i = 0; i < sequence->rows; ++i) {
      const int64_t position = sequence->position + i;
      const int64_t page = sequence->pages[position / shape.page_tokens];
      const int64_t slot = position % shape.page_tokens;
      for (int64_t head = 0; head < shape.kv_heads; ++head) {
        const int64_t source = (sequence->row + i) * row_stride + head * shape.head_dim;
        const int64_t block = (page * shape.kv_heads + head) * shape.head_dim * shape.page_tokens;
        for (int64_t d = 0; d < shape.head_dim; ++d) key_pages[block + d * shape.page_tokens + slot] = k[source + d];
        std::copy_n(v + source, shape.head_dim, value_pages + block + slot * shape.head_dim);
      }
    }
  }
}

void PagedAttentionReference(const float* q, const float* key_pages, const float* value_pages,
                             const SequenceRows* sequences, int64_t count, const AttentionShape& shape, float* out) {
  const int64_t head_dim = shape.pages.head_dim;
  const int64_t group = shape.heads / shape.pages.kv_heads;
  for (const SequenceRows* sequence = sequences; sequence != sequences + count; ++sequence) {
    for (int64_t i = 0; i < sequence->rows; ++i) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        const float* query = q + (sequence->row + i) * shape.query_stride + head * head_dim;
        std::vector<double> weights(sequence->position + i + 1);
        for (size_t p = 0; p < weights.size(); ++p) {
          for (int64_t d = 0; d < head_dim; ++d) {
            weights[p] += static_cast<double>(query[d]) * Key(key_pages, *sequence, p, head / group, d, shape.pages);
          }
          weights[p] *= shape.scale;
        }
        const double max = *std::max_element(weights.begin(), weights.end());
        double sum = 0;
        for (double& weight : weights) sum += weight = std::exp(weight - max);
        for (int64_t d = 0; d < head_dim; ++d) {
          double value = 0;
          for (size_t p = 0; p < weights.size(); ++p) {
            value += weights[p] * Value(value_pages, *sequence, p, head / group, d, shape.pages);
          }
          out[(sequence->row + i) * shape.out_stride + head * head_dim + d] = static_cast<float>(value / sum);
        }
      }
    }
  }
}

}  // namespace troupe::kernels
