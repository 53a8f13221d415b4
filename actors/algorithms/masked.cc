// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/masked.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "absl/status/status.h"

namespace troupe {
namespace {

constexpr double kCountEpsilon = 1e-8;
constexpr double kVarianceEpsilon = 1e-8;

at::Tensor SumOver(const at::Tensor& values, std::optional<int64_t> dim) {
  return dim.has_value() ? values.sum(*dim) : values.sum();
}

}  // namespace

at::Tensor ZeroOutside(const at::Tensor& values, const at::Tensor& mask) {
  return at::where(mask.to(at::kBool), values, at::zeros_like(values));
}

at::Tensor MaskedSum(const at::Tensor& values, const at::Tensor& mask, std::optional<int64_t> dim) {
  return SumOver(ZeroOutside(values, mask) * mask, dim);
}

at::Tensor MaskedMean(const at::Tensor& values, const at::Tensor& mask, std::optional<int64_t> dim) {
  return MaskedSum(values, mask, dim) / (SumOver(mask, dim) + kCountEpsilon);
}

absl::StatusOr<at::Tensor> MaskedVar(const at::Tensor& values, const at::Tensor& mask, bool unbiased) {
  const double count = mask.sum().item<double>();
  if (count == 0) return absl::InvalidArgumentError("variance under an empty mask");
  if (unbiased && count == 1) return absl::InvalidArgumentError("unbiased variance of a single element");
  const at::Tensor centred = values - MaskedMean(values, mask);
  const at::Tensor variance = MaskedMean(centred * centred, mask);
  return unbiased ? variance * (count / (count - 1)) : variance;
}

absl::StatusOr<at::Tensor> MaskedWhiten(const at::Tensor& values, const at::Tensor& mask, bool shift_mean) {
  absl::StatusOr<at::Tensor> variance = MaskedVar(values, mask);
  if (!variance.ok()) return variance.status();
  const at::Tensor mean = MaskedMean(values, mask);
  at::Tensor whitened = (values - mean) * (*variance + kVarianceEpsilon).rsqrt();
  if (!shift_mean) whitened = whitened + mean;
  return ZeroOutside(whitened, mask);
}

}  // namespace troupe
