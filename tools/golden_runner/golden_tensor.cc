// SPDX-License-Identifier: Apache-2.0
#include "tools/golden_runner/golden_tensor.h"

#include <ATen/ops/from_blob.h>

#include "tools/golden_runner/golden_check.h"

namespace troupe::golden {
namespace {

at::ScalarType TypeOf(const std::string& dtype) {
  if (dtype == "float32") return at::kFloat;
  if (dtype == "int64") return at::kLong;
  if (dtype == "bool") return at::kBool;
  return at::kDouble;
}

}  // namespace

at::Tensor TensorOf(const nlohmann::json& value, const std::string& dtype) {
  std::vector<double> numbers = NumbersOf(value);
  return at::from_blob(numbers.data(), ShapeOf(value), at::kDouble)
      .to(TypeOf(dtype), /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor Input(const Case& one, const std::string& name) {
  return TensorOf(one.inputs.at(name), one.Dtype(name, "float64"));
}

std::vector<double> ValuesOf(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace troupe::golden
