// SPDX-License-Identifier: Apache-2.0
//
// A lane is one (query row, head). Up to four lanes that share a key/value head go together through the context in
// tiles of positions, each with a running maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022), so that a key
// or value is loaded once for four lanes and no array grows with the context.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/avx2_math.h"
#include "kernels/paged_attention/paged_attention.h"

namespace troupe::kernels {
namespace {

constexpr int64_t kTilePositions = 64;
constexpr int64_t kHeadDimMax = 256;
constexpr int kLanes = 4;
constexpr int64_t kRowsPerTask = 32;

#define TROUPE_INLINE_AVX2 __attribute__((target("avx2,fma"), always_inline)) inline

struct Lane {
  const float* query = nullptr;
  float* out = nullptr;
  int64_t limit = 0;  // attends to positions [0, limit)
};

// scores[lane][0 .. 8 * Vectors) = scale * q[lane] . keys; keys: [head_dim, stride].
template <int Lanes, int Vectors>
TROUPE_INLINE_AVX2 void Scores(const Lane* lanes, const float* keys, int64_t stride, int64_t head_dim, float scale,
                               float (*scores)[kTilePositions]) {
  __m256 sums[Lanes][Vectors];
#pragma GCC unroll 4
  for (int l = 0; l < Lanes; ++l) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[l][v] = _mm256_setzero_ps();
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    __m256 key[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) key[v] = _mm256_loadu_ps(keys + d * stride + 8 * v);
#pragma GCC unroll 4
    for (int l = 0; l < Lanes; ++l) {
      const __m256 query = _mm256_broadcast_ss(lanes[l].query + d);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sums[l][v] = _mm256_fmadd_ps(query, key[v], sums[l][v]);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < Lanes; ++l) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      _mm256_storeu_ps(scores[l] + 8 * v, _mm256_mul_ps(sums[l][v], _mm256_set1_ps(scale)));
    }
  }
}

// sums[lane][dims] += weights[lane] . values over `positions` rows; values: [positions, head_dim], columns [dim, dim +
// 8 * Vectors).
template <int Lanes, int Vectors>
TROUPE_INLINE_AVX2 void AddValues(const float (*weights)[kTilePositions], int64_t first, int64_t positions,
                                  const float* values, int64_t head_dim, int64_t dim, float (*sums)[kHeadDimMax]) {
  __m256 total[Lanes][Vectors];
#pragma GCC unroll 4
  for (int l = 0; l < Lanes; ++l) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) total[l][v] = _mm256_loadu_ps(sums[l] + dim + 8 * v);
  }
  for (int64_t p = 0; p < positions; ++p) {
    __m256 value[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) value[v] = _mm256_loadu_ps(values + p * head_dim + dim + 8 * v);
#pragma GCC unroll 4
    for (int l = 0; l < Lanes; ++l) {
      const __m256 weight = _mm256_broadcast_ss(weights[l] + first + p);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) total[l][v] = _mm256_fmadd_ps(weight, value[v], total[l][v]);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < Lanes; ++l) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) _mm256_storeu_ps(sums[l] + dim + 8 * v, total[l][v]);
  }
}

// Turns one lane's scores of a tile into weights, positions [valid, kTilePositions) to zero; rescales what was summed
// before.
TROUPE_AVX2 void Softmax(float* scores, int64_t valid, int64_t head_dim, float& max, float& sum, float* sums) {
  std::fill(scores + valid, scores + kTilePositions, -std::numeric_limits<float>::infinity());
  __m256 maxima = _mm256_set1_ps(max);
  for (int64_t i = 0; i < kTilePositions; i += 8) maxima = _mm256_max_ps(_mm256_loadu_ps(scores + i), maxima);
  const float new_max = Max8(maxima);
  const __m256 shift = _mm256_set1_ps(new_max);
  __m256 tile_sum = _mm256_setzero_ps();
  for (int64_t i = 0; i < kTilePositions; i += 8) {
    const __m256 weight = Exp8(_mm256_sub_ps(_mm256_loadu_ps(scores + i), shift));
    _mm256_storeu_ps(scores + i, weight);
    tile_sum = _mm256_add_ps(tile_sum, weight);
  }
  if (new_max > max) {
    const float factor = std::exp(max - new_max);
    sum *= factor;
    for (int64_t d = 0; d < head_dim; d += 8) {
      _mm256_storeu_ps(sums + d, _mm256_mul_ps(_mm256_loadu_ps(sums + d), _mm256_set1_ps(factor)));
    }
  }
  max = new_max;
  sum += Sum8(tile_sum);
}

template <int Lanes>
TROUPE_AVX2 void Attend(const Lane* lanes, const float* key_pages, const float* value_pages, const int32_t* pages,
                        int64_t kv_head, const AttentionShape& shape) {
  const int64_t head_dim = shape.pages.head_dim;
  const int64_t page_tokens = shape.pages.page_tokens;
  const int64_t head_floats = head_dim * page_tokens;
  alignas(32) float scores[Lanes][kTilePositions];
  alignas(32) float sums[Lanes][kHeadDimMax];
  float max[Lanes], sum[Lanes];
  int64_t limit = 0;
#pragma GCC unroll 4
  for (int l = 0; l < Lanes; ++l) {
    std::fill_n(sums[l], head_dim, 0.0f);
    max[l] = -std::numeric_limits<float>::infinity();
    sum[l] = 0;
    limit = std::max(limit, lanes[l].limit);
  }
  for (int64_t tile = 0; tile < limit; tile += kTilePositions) {
    const int64_t end = std::min(limit, tile + kTilePositions);
    for (int64_t position = tile; position < end; position += page_tokens) {
      const float* keys = key_pages + (pages[position / page_tokens] * shape.pages.kv_heads + kv_head) * head_floats;
      const int64_t used = std::min(page_tokens, end - position);
      int64_t i = 0;
      for (; i + 8 < used && i + 16 <= page_tokens; i += 16) {
        Scores<Lanes, 2>(lanes, keys + i, page_tokens, head_dim, shape.scale,
                         reinterpret_cast<float(*)[kTilePositions]>(&scores[0][position - tile + i]));
      }
      for (; i < used; i += 8) {
        Scores<Lanes, 1>(lanes, keys + i, page_tokens, head_dim, shape.scale,
                         reinterpret_cast<float(*)[kTilePositions]>(&scores[0][position - tile + i]));
      }
    }
#pragma GCC unroll 4
    for (int l = 0; l < Lanes; ++l) {
      const int64_t valid = std::clamp<int64_t>(lanes[l].limit - tile, 0, kTilePositions);
      if (valid > 0) {
        Softmax(scores[l], valid, head_dim, max[l], sum[l], sums[l]);
      } else {
        std::fill_n(scores[l], kTilePositions, 0.0f);
      }
    }
    for (int64_t position = tile; position < end; position += page_tokens) {
      const float* values =
          value_pages + (pages[position / page_tokens] * shape.pages.kv_heads + kv_head) * head_floats;
      const int64_t used = std::min(page_tokens, end - position);
      int64_t dim = 0;
      for (; dim + 16 <= head_dim; dim += 16) {
        AddValues<Lanes, 2>(scores, position - tile, used, values, head_dim, dim, sums);
      }
      for (; dim < head_dim; dim += 8) AddValues<Lanes, 1>(scores, position - tile, used, values, head_dim, dim, sums);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < Lanes; ++l) {
    for (int64_t d = 0; d < head_dim; ++d) lanes[l].out[d] = sums[l][d] / sum[l];
  }
}

// Query rows [begin, end) of one sequence, all heads that read kv_head.
TROUPE_AVX2 void AttendRows(const float* q, const float* key_pages, const float* value_pages,
                            const SequenceRows& sequence, int64_t begin, int64_t end, int64_t kv_head,
                            const AttentionShape& shape, float* out) {
  const int64_t group = shape.heads / shape.pages.kv_heads;
  Lane lanes[kLanes];
  int filled = 0;
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      lanes[filled++] = {q + (sequence.row + row) * shape.query_stride + head * shape.pages.head_dim,
                         out + (sequence.row + row) * shape.out_stride + head * shape.pages.head_dim,
                         sequence.position + row + 1};
      const bool last = row + 1 == end && head + 1 == (kv_head + 1) * group;
      if (filled < kLanes && !last) continue;
      if (filled == 4) Attend<4>(lanes, key_pages, value_pages, sequence.pages, kv_head, shape);
      if (filled == 3) Attend<3>(lanes, key_pages, value_pages, sequence.pages, kv_head, shape);
      if (filled == 2) Attend<2>(lanes, key_pages, value_pages, sequence.pages, kv_head, shape);
      if (filled == 1) Attend<1>(lanes, key_pages, value_pages, sequence.pages, kv_head, shape);
      filled = 0;
    }
  }
}

}  // namespace

void PagedAttention(const float* q, const float* key_pages, const float* value_pages, const SequenceRows* sequences,
                    int64_t count, const AttentionShape& shape, float* out, const Parallel& parallel) {
  const PageShape& pages = shape.pages;
  const bool fits = pages.head_dim % 8 == 0 && pages.head_dim <= kHeadDimMax && pages.page_tokens % 8 == 0 &&
                    kTilePositions % pages.page_tokens == 0;
  if (!HasAvx2() || !fits) return PagedAttentionReference(q, key_pages, value_pages, sequences, count, shape, out);

  // Tasks: for each sequence, key/value head and block of rows. Numbered so that task t of a sequence is (block,
  // kv_head).
  int64_t tasks = 0;
  int64_t work = 0;
  for (int64_t s = 0; s < count; ++s) {
    tasks += (sequences[s].rows + kRowsPerTask - 1) / kRowsPerTask * pages.kv_heads;
    work += sequences[s].rows * (sequences[s].position + sequences[s].rows) * shape.heads * pages.head_dim;
  }
  const auto run = [&](int64_t task) {
    const SequenceRows* sequence = sequences;
    for (;; ++sequence) {
      const int64_t own = (sequence->rows + kRowsPerTask - 1) / kRowsPerTask * pages.kv_heads;
      if (task < own) break;
      task -= own;
    }
    const int64_t begin = task / pages.kv_heads * kRowsPerTask;
    AttendRows(q, key_pages, value_pages, *sequence, begin, std::min(sequence->rows, begin + kRowsPerTask),
               task % pages.kv_heads, shape, out);
  };
  constexpr int64_t kWorkWorthThreads = 1 << 19;
  (work < kWorkWorthThreads ? Parallel() : parallel).For(tasks, run);
}

}  // namespace troupe::kernels
