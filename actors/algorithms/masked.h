// SPDX-License-Identifier: Apache-2.0
// Statistics under a mask. What stands outside the mask never matters, NaN and Inf included, in values and gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace troupe {

// mask: same shape as values; 1 marks an element that counts. dim: over this dimension; none: over all.
at::Tensor MaskedSum(const at::Tensor& values, const at::Tensor& mask, std::optional<int64_t> dim = std::nullopt);

// sum(x m) / (sum m + 1e-8)
at::Tensor MaskedMean(const at::Tensor& values, const at::Tensor& mask, std::optional<int64_t> dim = std::nullopt);

// unbiased: Bessel-corrected. InvalidArgument for an empty mask, and for a mask of one if unbiased.
absl::StatusOr<at::Tensor> MaskedVar(const at::Tensor& values, const at::Tensor& mask, bool unbiased = true);

// (x - mean) * rsqrt(var + 1e-8), zero outside the mask; shift_mean false keeps the mean. Errors as of MaskedVar.
absl::StatusOr<at::Tensor> MaskedWhiten(const at::Tensor& values, const at::Tensor& mask, bool shift_mean = true);

// values where the mask is not 0, else 0, also for the gradient.
at::Tensor ZeroOutside(const at::Tensor& values, const at::Tensor& mask);

}  // namespace troupe
