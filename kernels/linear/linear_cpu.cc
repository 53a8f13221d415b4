// SPDX-License-Identifier: Apache-2.0
//
// Rows of x and of w both lie along `in`, so that a tile of y is a set of dot products without any rearranging: 3 rows
// of x times 4 rows of w are 12 sums in registers, 7 loads for 12 multiply-adds. Four rows of w stay in the first cache
// while a block of x streams from the second.

#include <algorithm>

#include "kernels/cpu/avx2_math.h"
#include "kernels/linear/linear.h"

namespace troupe::kernels {
namespace {

constexpr int kTileRows = 3;                  // of x
constexpr int kTileOut = 4;                   // rows of w
constexpr int64_t kBlockBytes = 192 * 1024;   // of x: well inside a second-level cache of 512 KiB
constexpr int64_t kTaskElements = 64 * 1024;  // of w

// Sums of four vectors, one in each element.
TROUPE_AVX2 inline __m128 Sums(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

// y[0 .. Rows)[0 .. outs): where fewer than four rows of w are left the last is repeated, and its sums are dropped.
template <int Rows>
TROUPE_AVX2 void Tile(const float* x, const float* const* w, const float* bias, int64_t in, float* y, int64_t y_stride,
                      int64_t outs) {
  __m256 sums[Rows][kTileOut];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int o = 0; o < kTileOut; ++o) sums[r][o] = _mm256_setzero_ps();
  }
  const int64_t vectors = in / 8 * 8;
  for (int64_t i = 0; i < vectors; i += 8) {
    __m256 values[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) values[r] = _mm256_loadu_ps(x + r * in + i);
#pragma GCC unroll 4
    for (int o = 0; o < kTileOut; ++o) {
      const __m256 weight = _mm256_loadu_ps(w[o] + i);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) sums[r][o] = _mm256_fmadd_ps(values[r], weight, sums[r][o]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    alignas(16) float out[kTileOut];
    _mm_store_ps(out, Sums(sums[r][0], sums[r][1], sums[r][2], sums[r][3]));
    for (int64_t o = 0; o < outs; ++o) {
      float rest = out[o];
      for (int64_t i = vectors; i < in; ++i) rest += x[r * in + i] * w[o][i];
      y[r * y_stride + o] = bias == nullptr ? rest : rest + bias[o];
    }
  }
}

// Columns [begin, end) of y.
TROUPE_AVX2 void Columns(const float* x, const float* w, const float* bias, float* y, const LinearShape& shape,
                         int64_t begin, int64_t end) {
  const int64_t in = shape.in;
  const int64_t block =
      std::max<int64_t>(kBlockBytes / (in * static_cast<int64_t>(sizeof(float))) / kTileRows, 1) * kTileRows;
  for (int64_t first = 0; first < shape.rows; first += block) {
    const int64_t last = std::min(shape.rows, first + block);
    for (int64_t o = begin; o < end; o += kTileOut) {
      const int64_t outs = std::min<int64_t>(kTileOut, end - o);
      const float* rows_of_w[kTileOut];
      for (int64_t i = 0; i < kTileOut; ++i) rows_of_w[i] = w + (o + std::min(i, outs - 1)) * in;
      const float* bias_at = bias == nullptr ? nullptr : bias + o;
      int64_t row = first;
      for (; row + 3 <= last; row += 3) {
        Tile<3>(x + row * in, rows_of_w, bias_at, in, y + row * shape.out + o, shape.out, outs);
      }
      if (last - row == 2) Tile<2>(x + row * in, rows_of_w, bias_at, in, y + row * shape.out + o, shape.out, outs);
      if (last - row == 1) Tile<1>(x + row * in, rows_of_w, bias_at, in, y + row * shape.out + o, shape.out, outs);
    }
  }
}

}  // namespace

void Linear(const float* x, const float* w, const float* bias, float* y, const LinearShape& shape,
            const Parallel& parallel) {
  if (!HasAvx2()) return LinearReference(x, w, bias, y, shape);
  if (shape.rows == 0) return;
  // Columns of a task: a multiple of the tile, and enough work to be worth a thread.
  const int64_t wanted = std::max<int64_t>(kTaskElements / shape.in, shape.out / (8 * parallel.threads()));
  const int64_t columns = (wanted + kTileOut - 1) / kTileOut * kTileOut;
  const int64_t tasks = (shape.out + columns - 1) / columns;
  parallel.For(tasks, [&](int64_t task) {
    Columns(x, w, bias, y, shape, task * columns, std::min(shape.out, (task + 1) * columns));
  });
}

}  // namespace troupe::kernels
