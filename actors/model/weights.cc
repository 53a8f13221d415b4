// SPDX-License-Identifier: Apache-2.0

#include "actors/model/weights.h"

#include <cstdint>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace troupe {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

ModelWeights ModelWeights::Allocate(WeightLayout layout) {
  const size_t size_bytes = static_cast<size_t>(layout.total_bytes);
  std::shared_ptr<std::byte> buffer(new (kAlignment) std::byte[size_bytes](),
                                    [](std::byte* data) { ::operator delete[](data, kAlignment); });
  ModelWeights weights;
  weights.layout_ = std::make_shared<const WeightLayout>(std::move(layout));
  weights.data_ = buffer.get();
  weights.keep_alive_ = std::move(buffer);
  return weights;
}

absl::StatusOr<ModelWeights> ModelWeights::Map(WeightLayout layout, std::span<std::byte> bytes,
                                               std::shared_ptr<const void> keep_alive) {
  if (static_cast<int64_t>(bytes.size()) < layout.total_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights of ", layout.total_bytes, " bytes do not fit in a mapping of ", bytes.size(), " bytes"));
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(kAlignment) != 0) {
    return absl::InvalidArgumentError("a mapping of weights must be aligned to 64 bytes");
  }
  ModelWeights weights;
  weights.layout_ = std::make_shared<const WeightLayout>(std::move(layout));
  weights.data_ = bytes.data();
  weights.keep_alive_ = std::move(keep_alive);
  return weights;
}

std::span<float> ModelWeights::Float32(std::string_view name) const {
  const WeightEntry* entry = empty() ? nullptr : layout_->Find(name);
  if (entry == nullptr || entry->type != ElementType::kF32) return {};
  return {reinterpret_cast<float*>(data_ + entry->offset_bytes), static_cast<size_t>(entry->elements())};
}

absl::StatusOr<ModelWeights> LoadWeights(const ModelSource& source) {
  absl::StatusOr<WeightLayout> layout = LayoutOf(source.config(), ElementType::kF32);
  if (!layout.ok()) return layout.status();
  ModelWeights weights = ModelWeights::Allocate(*std::move(layout));
  for (const WeightEntry& entry : weights.layout().entries) {
    const TensorInfo* tensor = source.Find(entry.name);
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("the model's file has no tensor ", entry.name));
    }
    if (tensor->shape != entry.shape) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", entry.name, " has shape [",
                                                     absl::StrJoin(tensor->shape, ", "), "]; its config asks for [",
                                                     absl::StrJoin(entry.shape, ", "), "]"));
    }
    std::span<float> values = weights.Float32(entry.name);
    absl::Status read = source.Read(entry.name, absl::MakeSpan(values.data(), values.size()));
    if (!read.ok()) return read;
  }
  return weights;
}

}  // namespace troupe
