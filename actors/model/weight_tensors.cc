// SPDX-License-Identifier: Apache-2.0

#include "actors/model/weight_tensors.h"

#include <ATen/ops/from_blob.h>

#include <vector>

namespace troupe {
namespace {

at::Tensor Blob(const ModelWeights& weights, const WeightEntry& first, at::IntArrayRef shape) {
  const at::ScalarType type = first.type == ElementType::kBF16 ? at::kBFloat16 : at::kFloat;
  return at::from_blob(
      weights.bytes().data() + first.offset_bytes, shape, [keep = weights](void*) {}, type);
}

}  // namespace

at::Tensor TensorView(const ModelWeights& weights, std::string_view name) {
  const WeightEntry* entry = weights.layout().Find(name);
  return entry == nullptr ? at::Tensor() : Blob(weights, *entry, entry->shape);
}

at::Tensor FusedView(const ModelWeights& weights, std::string_view first, std::string_view last) {
  const WeightEntry* entry = weights.layout().Find(first);
  const WeightEntry* end = weights.layout().Find(last);
  if (entry == nullptr || end == nullptr || end < entry) return at::Tensor();
  std::vector<int64_t> shape = entry->shape;
  for (const WeightEntry* next = entry + 1; next <= end; ++next) {
    const bool same_row = std::vector<int64_t>(next->shape.begin() + 1, next->shape.end()) ==
                          std::vector<int64_t>(shape.begin() + 1, shape.end());
    const WeightEntry* before = next - 1;
    if (!same_row || next->type != entry->type || next->offset_bytes != before->offset_bytes + before->size_bytes) {
      return at::Tensor();
    }
    shape[0] += next->shape[0];
  }
  return Blob(weights, *entry, shape);
}

}  // namespace troupe
