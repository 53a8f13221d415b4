// SPDX-License-Identifier: Apache-2.0
#include "actors/model/object_tensor.h"

#include <ATen/ops/from_blob.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace troupe {
namespace {

struct TypePair {
  DType dtype;
  at::ScalarType scalar;
};
constexpr TypePair kTypes[] = {
    {DType::kFloat32, at::kFloat},     {DType::kFloat64, at::kDouble}, {DType::kFloat16, at::kHalf},
    {DType::kBFloat16, at::kBFloat16}, {DType::kInt8, at::kChar},      {DType::kInt16, at::kShort},
    {DType::kInt32, at::kInt},         {DType::kInt64, at::kLong},     {DType::kUInt8, at::kByte},
    {DType::kBool, at::kBool},
};

at::ScalarType ScalarOf(DType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) return pair.scalar;
  }
  return at::kByte;  // Not reached: a Tensor has a type of DType.
}

}  // namespace

at::Tensor TensorOver(Tensor tensor) {
  auto kept = std::make_shared<Tensor>(std::move(tensor));
  return at::from_blob(
      const_cast<std::byte*>(kept->data()), kept->shape(), [kept](void*) {}, ScalarOf(kept->dtype()));
}

absl::StatusOr<TensorSpan> SpanOf(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_contiguous()) {
    return absl::InvalidArgumentError(
        "an object is made from a contiguous tensor in the CPU's memory: call .cpu().contiguous()");
  }
  for (const TypePair& pair : kTypes) {
    if (pair.scalar == tensor.scalar_type()) {
      return TensorSpan(pair.dtype, tensor.sizes().vec(), tensor.const_data_ptr());
    }
  }
  return absl::InvalidArgumentError(std::string("objects have no tensors of type ") +
                                    at::toString(tensor.scalar_type()));
}

}  // namespace troupe
