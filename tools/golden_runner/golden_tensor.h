// SPDX-License-Identifier: Apache-2.0
// Tensors from and to a case's nested lists.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/golden_runner/golden_case.h"

namespace troupe::golden {

at::Tensor TensorOf(const nlohmann::json& value, const std::string& dtype);

// An input by its name, in the type that the case tells (float64 if it does not).
at::Tensor Input(const Case& one, const std::string& name);

std::vector<double> ValuesOf(const at::Tensor& tensor);

}  // namespace troupe::golden
