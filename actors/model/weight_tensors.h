// SPDX-License-Identifier: Apache-2.0
//
// Tensor views on ModelWeights. Apart from weights.h because LibTorch's headers are slow to compile.

#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "actors/model/weights.h"

namespace troupe {

// A view without a copy, which keeps the buffer alive. Undefined tensor if there is no parameter of this name.
at::Tensor TensorView(const ModelWeights& weights, std::string_view name);

// One view over parameters that are neighbours (see WeightLayout): rows are stacked in their order, so that one matrix
// product serves q, k and v, or gate and up. [sum of out_features, in_features]; for biases [sum of out_features].
// Undefined tensor if `first` or `last` is missing or what lies between is not contiguous.
at::Tensor FusedView(const ModelWeights& weights, std::string_view first, std::string_view last);

}  // namespace troupe
