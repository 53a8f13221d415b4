// SPDX-License-Identifier: Apache-2.0
//
// A model's parameters as views on one contiguous buffer. No LibTorch here; tensor views are in weight_tensors.h.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "actors/model/files/model_source.h"
#include "actors/model/weight_layout.h"

namespace troupe {

// A cheap handle, copied freely: copies share the buffer, which lives as long as the last of them. Reading from several
// threads is safe; nobody may write while others read (a published version is never written again).
class ModelWeights {
 public:
  ModelWeights() = default;

  // A zeroed buffer of this layout, 64-byte aligned, owned by the handle.
  static ModelWeights Allocate(WeightLayout layout);

  // Views on memory someone else made, for instance a mapped memory file of `bytes.size() >= layout.total_bytes` and
  // aligned to 64 bytes. Nothing is copied. `keep_alive` is held as long as any copy of the handle (it unmaps in its
  // deleter). InvalidArgument if the memory is too small or not aligned.
  static absl::StatusOr<ModelWeights> Map(WeightLayout layout, std::span<std::byte> bytes,
                                          std::shared_ptr<const void> keep_alive);

  bool empty() const { return data_ == nullptr; }
  const WeightLayout& layout() const { return *layout_; }
  // The whole buffer, layout().total_bytes long. Writable only if the mapping is.
  std::span<std::byte> bytes() const { return {data_, static_cast<size_t>(layout_->total_bytes)}; }

  // One parameter; empty if there is none of this name or it is not float32.
  std::span<float> Float32(std::string_view name) const;

 private:
  std::shared_ptr<const WeightLayout> layout_;
  std::shared_ptr<const void> keep_alive_;
  std::byte* data_ = nullptr;
};

// Reads every parameter of the layout as float32. An error names the file's tensor and the parameter where they
// disagree (missing, or of another shape).
absl::StatusOr<ModelWeights> LoadWeights(const ModelSource& source);

}  // namespace troupe
