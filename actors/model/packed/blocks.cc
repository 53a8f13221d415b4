// SPDX-License-Identifier: Apache-2.0
#include "actors/model/packed/blocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "actors/model/intra_op.h"
#include "actors/model/packed/vector_math.h"

namespace troupe::packed {
namespace {

constexpr int64_t kElementsPerTask = 16384;  // less is not worth a thread
constexpr int64_t kColumnsPerTask = 64;

int64_t RowsPerTask(int64_t width) { return std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, width)); }

TROUPE_INLINE float InverseRms(const float* x, float eps, int64_t width) {
  return 1.0f / std::sqrt(Dot(x, x, width) / static_cast<float>(width) + eps);
}

TROUPE_VECTORISED void RmsNormRows(const float* x, const float* weight, float eps, float* y, int64_t begin, int64_t end,
                                   int64_t width) {
  for (int64_t row = begin; row < end; ++row) {
    const float* in = x + row * width;
    float* out = y + row * width;
    const float inverse = InverseRms(in, eps, width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) out[i] = in[i] * inverse * weight[i];
  }
}

TROUPE_VECTORISED void RmsNormBackwardRows(const float* dy, const float* x, const float* weight, float eps, float* dx,
                                           int64_t begin, int64_t end, int64_t width) {
  for (int64_t row = begin; row < end; ++row) {
    const float* in = x + row * width;
    const float* g = dy + row * width;
    float* out = dx + row * width;
    const float inverse = InverseRms(in, eps, width);
    float projection = 0;
#pragma omp simd reduction(+ : projection)
    for (int64_t i = 0; i < width; ++i) projection += g[i] * weight[i] * in[i];
    const float shrink = projection * inverse * inverse * inverse / static_cast<float>(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) out[i] += g[i] * weight[i] * inverse - in[i] * shrink;
  }
}

// Columns [begin, end) of dweight, all rows. inverse: [rows].
TROUPE_VECTORISED void RmsNormWeightColumns(const float* dy, const float* x, const float* inverse, float* dweight,
                                            int64_t rows, int64_t begin, int64_t end, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * width;
    const float* g = dy + row * width;
    const float r = inverse[row];
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) dweight[i] += g[i] * in[i] * r;
  }
}

TROUPE_VECTORISED void InverseRmsRows(const float* x, float eps, float* inverse, int64_t begin, int64_t end,
                                      int64_t width) {
  for (int64_t row = begin; row < end; ++row) inverse[row] = InverseRms(x + row * width, eps, width);
}

TROUPE_VECTORISED void RopeRows(float* x, int64_t stride, const float* cosines, const float* sines, int64_t begin,
                                int64_t end, int64_t heads, int64_t head_dim, float sign) {
  const int64_t half = head_dim / 2;
  for (int64_t row = begin; row < end; ++row) {
    const float* c = cosines + row * half;
    const float* s = sines + row * half;
    for (int64_t head = 0; head < heads; ++head) {
      float* first = x + row * stride + head * head_dim;
      float* second = first + half;
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float a = first[i];
        const float b = second[i];
        first[i] = a * c[i] - sign * b * s[i];
        second[i] = b * c[i] + sign * a * s[i];
      }
    }
  }
}

TROUPE_VECTORISED void SiluMulRows(const float* gate_up, float* y, int64_t begin, int64_t end, int64_t width) {
  for (int64_t row = begin; row < end; ++row) {
    const float* gate = gate_up + row * 2 * width;
    const float* up = gate + width;
    float* out = y + row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) out[i] = gate[i] / (1.0f + FastExp(-gate[i])) * up[i];
  }
}

TROUPE_VECTORISED void SiluMulBackwardRows(const float* dy, float* gate_up, int64_t begin, int64_t end, int64_t width) {
  for (int64_t row = begin; row < end; ++row) {
    float* gate = gate_up + row * 2 * width;
    float* up = gate + width;
    const float* g = dy + row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float z = gate[i];
      const float sigmoid = 1.0f / (1.0f + FastExp(-z));
      const float u = up[i];
      gate[i] = g[i] * u * sigmoid * (1.0f + z * (1.0f - sigmoid));
      up[i] = g[i] * z * sigmoid;
    }
  }
}

TROUPE_VECTORISED void AddRange(const float* x, float* y, int64_t begin, int64_t end) {
  Axpy(1, x + begin, y + begin, end - begin);
}

}  // namespace

void RmsNorm(const float* x, const float* weight, float eps, float* y, int64_t rows, int64_t width) {
  IntraOpFor(rows, RowsPerTask(width),
             [&](int64_t begin, int64_t end) { RmsNormRows(x, weight, eps, y, begin, end, width); });
}

void RmsNormBackward(const float* dy, const float* x, const float* weight, float eps, float* dx, float* dweight,
                     int64_t rows, int64_t width, bool accumulate) {
  std::vector<float> inverse(static_cast<size_t>(rows));
  InverseRmsRows(x, eps, inverse.data(), 0, rows, width);
  IntraOpFor((width + kColumnsPerTask - 1) / kColumnsPerTask, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kColumnsPerTask;
    const int64_t last = std::min(width, end * kColumnsPerTask);
    if (!accumulate) std::fill(dweight + first, dweight + last, 0.0f);
    RmsNormWeightColumns(dy, x, inverse.data(), dweight, rows, first, last, width);
  });
  IntraOpFor(rows, RowsPerTask(width),
             [&](int64_t begin, int64_t end) { RmsNormBackwardRows(dy, x, weight, eps, dx, begin, end, width); });
}

void Rope(float* x, int64_t stride, const float* cosines, const float* sines, int64_t rows, int64_t heads,
          int64_t head_dim, bool inverse) {
  IntraOpFor(rows, RowsPerTask(heads * head_dim), [&](int64_t begin, int64_t end) {
    RopeRows(x, stride, cosines, sines, begin, end, heads, head_dim, inverse ? -1.0f : 1.0f);
  });
}

void SiluMul(const float* gate_up, float* y, int64_t rows, int64_t width) {
  IntraOpFor(rows, RowsPerTask(width), [&](int64_t begin, int64_t end) { SiluMulRows(gate_up, y, begin, end, width); });
}

void SiluMulBackward(const float* dy, float* gate_up, int64_t rows, int64_t width) {
  IntraOpFor(rows, RowsPerTask(width),
             [&](int64_t begin, int64_t end) { SiluMulBackwardRows(dy, gate_up, begin, end, width); });
}

void AddInPlace(const float* x, float* y, int64_t count) {
  IntraOpFor(count, kElementsPerTask, [&](int64_t begin, int64_t end) { AddRange(x, y, begin, end); });
}

}  // namespace troupe::packed
