// SPDX-License-Identifier: Apache-2.0
#include "actors/model/packed/gemm.h"

#include <cstring>

#include "actors/model/packed/vector_math.h"

// The BLAS inside libtorch_cpu, column-major, 32-bit sizes.
extern "C" void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);

namespace troupe::packed {
namespace {

void Sgemm(char transa, char transb, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
           int64_t ldb, bool accumulate, float* c, int64_t ldc) {
  const int sizes[] = {static_cast<int>(m),   static_cast<int>(n),   static_cast<int>(k),
                       static_cast<int>(lda), static_cast<int>(ldb), static_cast<int>(ldc)};
  const float one = 1;
  const float beta = accumulate ? 1 : 0;
  sgemm_(&transa, &transb, &sizes[0], &sizes[1], &sizes[2], &one, a, &sizes[3], b, &sizes[4], &beta, c, &sizes[5]);
}

TROUPE_VECTORISED void AddRows(const float* bias, float* y, int64_t rows, int64_t out) {
  for (int64_t row = 0; row < rows; ++row) Axpy(1, bias, y + row * out, out);
}

}  // namespace

void Linear(const float* x, const float* w, const float* bias, float* y, int64_t rows, int64_t in, int64_t out) {
  if (rows == 0) return;
  Sgemm('T', 'N', out, rows, in, w, in, x, in, false, y, out);
  if (bias != nullptr) AddRows(bias, y, rows, out);
}

void LinearGradInput(const float* dy, const float* w, float* dx, int64_t rows, int64_t in, int64_t out,
                     bool accumulate) {
  if (rows == 0) return;
  Sgemm('N', 'N', in, rows, out, w, in, dy, out, accumulate, dx, in);
}

void LinearGradWeight(const float* dy, const float* x, float* dw, float* dbias, int64_t rows, int64_t in, int64_t out,
                      bool accumulate) {
  if (rows > 0) {
    Sgemm('N', 'T', in, out, rows, x, in, dy, out, accumulate, dw, in);
  } else if (!accumulate) {
    std::memset(dw, 0, static_cast<size_t>(in * out) * sizeof(float));
  }
  if (dbias == nullptr) return;
  if (!accumulate) std::memset(dbias, 0, static_cast<size_t>(out) * sizeof(float));
  for (int64_t row = 0; row < rows; ++row) AddRows(dy + row * out, dbias, 1, out);
}

}  // namespace troupe::packed
