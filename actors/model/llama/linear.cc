// SPDX-License-Identifier: Apache-2.0
#include "actors/model/llama/linear.h"

// The BLAS inside libtorch_cpu: column-major, C = alpha op(A) op(B) + beta C.
extern "C" void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);

namespace troupe {

void Linear(const float* x, const float* w, const float* bias, float* y, int64_t rows, int64_t in, int64_t out) {
  if (rows == 0) return;
  const int m = static_cast<int>(out);
  const int n = static_cast<int>(rows);
  const int k = static_cast<int>(in);
  const float one = 1;
  const float zero = 0;
  // Column-major y^T [out, rows] = (w^T stored as [in, out])^T x^T.
  sgemm_("T", "N", &m, &n, &k, &one, w, &k, x, &k, &zero, y, &m);
  if (bias == nullptr) return;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < out; ++i) y[row * out + i] += bias[i];
  }
}

}  // namespace troupe
