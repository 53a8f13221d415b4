// SPDX-License-Identifier: Apache-2.0
// LibTorch tensors over tensors that lie in objects (runtime/object/tensor.h), and back.
#pragma once

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "runtime/object/tensor.h"

namespace troupe {

// Without a copy; the object lives as long as the result or a view of it. It must not be written to: where the object
// is another process', its memory cannot be written and the process would be killed.
at::Tensor TensorOver(Tensor tensor);

// A contiguous CPU tensor's numbers, for Put; good as long as `tensor`. INVALID_ARGUMENT: it is neither, or of a type
// that objects do not have.
absl::StatusOr<TensorSpan> SpanOf(const at::Tensor& tensor);

}  // namespace troupe
