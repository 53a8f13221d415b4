// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/adamw.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "actors/model/intra_op.h"
#include "kernels/cpu/vectorised.h"

namespace troupe {
namespace {

constexpr int64_t kBlock = 1 << 16;  // elements of one task; also fixes the order of the norm's additions
constexpr int64_t kLane = 256;       // floats whose squares are added up before going to double

template <class T>
struct Constants {
  T decay, beta1_rest, beta2, beta2_rest, bias2_sqrt, eps, step_size, grad_scale;
};

// std::sqrt(float) and std::fma are functions that are not inlined into code for another instruction set.
TROUPE_INLINE float Root(float x) { return __builtin_sqrtf(x); }
TROUPE_INLINE double Root(double x) { return __builtin_sqrt(x); }
TROUPE_INLINE float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TROUPE_INLINE double Fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

// One element. Fused where torch's kernels are fused and nowhere else (this file is compiled without contraction).
template <class T>
TROUPE_INLINE void Moments(const Constants<T>& c, T gradient, T& m, T& v) {
  const T grad = gradient * c.grad_scale;
  m = Fma(c.beta1_rest, grad - m, m);
  v = Fma(c.beta2_rest * grad, grad, v * c.beta2);
}
template <class T>
TROUPE_INLINE T Moved(const Constants<T>& c, T p, T m, T v) {
  const T denominator = Root(v) / c.bias2_sqrt + c.eps;
  return p * c.decay + (c.step_size * m) / denominator;
}

// AMSGrad divides by the largest second moment so far. Rare, so plain.
template <class T>
void UpdateAmsgrad(const Constants<T>& c, const T* g, T* p, T* m, T* v, T* largest, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Moments(c, g[i], m[i], v[i]);
    largest[i] = std::max(largest[i], v[i]);
    p[i] = Moved(c, p[i], m[i], largest[i]);
  }
}

// One loop for both types; the functions below carry the attribute that compiles it for several instruction sets.
template <class T>
TROUPE_INLINE void Update(const Constants<T>& c, const T* g, T* p, T* m, T* v, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    T first = m[i];
    T second = v[i];
    Moments(c, g[i], first, second);
    m[i] = first;
    v[i] = second;
    p[i] = Moved(c, p[i], first, second);
  }
}

TROUPE_VECTORISED void UpdateBlock(const Constants<float>& c, const float* g, float* p, float* m, float* v,
                                   int64_t count) {
  Update(c, g, p, m, v, count);
}
TROUPE_VECTORISED void UpdateBlock(const Constants<double>& c, const double* g, double* p, double* m, double* v,
                                   int64_t count) {
  Update(c, g, p, m, v, count);
}

TROUPE_VECTORISED double SquaresOfBlock(const float* g, int64_t count) {
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kLane) {
    const int64_t end = std::min(count, begin + kLane);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(g[i]) * g[i];
    total += sum;
  }
  return total;
}

double OtherNorm(absl::Span<const float> gradients, double norm_type) {
  double sum = 0;
  double largest = 0;
  for (float g : gradients) {
    const double size = std::abs(static_cast<double>(g));
    sum += std::pow(size, norm_type);
    largest = size > largest || std::isnan(size) ? size : largest;
  }
  return std::isinf(norm_type) ? largest : std::pow(sum, 1 / norm_type);
}

int64_t Blocks(int64_t count) { return (count + kBlock - 1) / kBlock; }

}  // namespace

template <class T>
void AdamWUpdate(const AdamWStep& options, absl::Span<const T> gradients, absl::Span<T> parameters,
                 absl::Span<T> exp_avg, absl::Span<T> exp_avg_sq, absl::Span<T> max_exp_avg_sq) {
  const double step = static_cast<double>(options.step);
  const double bias1 = 1 - std::pow(options.beta1, step);
  const double bias2 = 1 - std::pow(options.beta2, step);
  const Constants<T> constants{.decay = static_cast<T>(1 - options.lr * options.weight_decay),
                               .beta1_rest = static_cast<T>(1 - options.beta1),
                               .beta2 = static_cast<T>(options.beta2),
                               .beta2_rest = static_cast<T>(1 - options.beta2),
                               .bias2_sqrt = static_cast<T>(std::sqrt(bias2)),
                               .eps = static_cast<T>(options.eps),
                               .step_size = static_cast<T>(-options.lr / bias1),
                               .grad_scale = static_cast<T>(options.grad_scale)};
  const int64_t count = static_cast<int64_t>(parameters.size());
  if (!max_exp_avg_sq.empty()) {
    return UpdateAmsgrad(constants, gradients.data(), parameters.data(), exp_avg.data(), exp_avg_sq.data(),
                         max_exp_avg_sq.data(), count);
  }
  IntraOpFor(Blocks(count), 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t at = block * kBlock;
      UpdateBlock(constants, gradients.data() + at, parameters.data() + at, exp_avg.data() + at, exp_avg_sq.data() + at,
                  std::min(kBlock, count - at));
    }
  });
}

template void AdamWUpdate<float>(const AdamWStep&, absl::Span<const float>, absl::Span<float>, absl::Span<float>,
                                 absl::Span<float>, absl::Span<float>);
template void AdamWUpdate<double>(const AdamWStep&, absl::Span<const double>, absl::Span<double>, absl::Span<double>,
                                  absl::Span<double>, absl::Span<double>);

double GradNorm(absl::Span<const float> gradients, double norm_type) {
  if (norm_type != 2) return OtherNorm(gradients, norm_type);
  const int64_t count = static_cast<int64_t>(gradients.size());
  std::vector<double> sums(static_cast<size_t>(Blocks(count)));
  IntraOpFor(Blocks(count), 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t at = block * kBlock;
      sums[static_cast<size_t>(block)] = SquaresOfBlock(gradients.data() + at, std::min(kBlock, count - at));
    }
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return std::sqrt(total);
}

double ClipFactor(double norm, double max_norm) {
  if (max_norm <= 0) return 1;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

float ClipFactor(float norm, float max_norm) {
  if (max_norm <= 0) return 1;
  return std::min(1.0f, max_norm / (norm + 1e-6f));
}

}  // namespace troupe
