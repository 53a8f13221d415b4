// SPDX-License-Identifier: Apache-2.0
// The memory of a paged KV cache: pages of all layers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/status/statusor.h"
#include "actors/model/files/model_config.h"
#include "kernels/paged_attention/paged_attention.h"

namespace troupe {

// Owns its memory, which the operating system gives page by page as it is first written. Not thread-safe.
class KvCache {
 public:
  // As many pages as fit into `bytes`. InvalidArgument if not even one does.
  static absl::StatusOr<KvCache> Create(const ModelConfig& config, int64_t page_tokens, int64_t bytes);

  int64_t num_pages() const { return num_pages_; }
  const kernels::PageShape& page_shape() const { return shape_; }
  float* keys(int64_t layer) { return memory_.get() + 2 * layer * num_pages_ * shape_.page_floats(); }
  float* values(int64_t layer) { return keys(layer) + num_pages_ * shape_.page_floats(); }

  // In all layers.
  void CopyPage(int32_t from, int32_t to);

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };

  kernels::PageShape shape_;
  int64_t layers_ = 0;
  int64_t num_pages_ = 0;
  std::unique_ptr<float[], Free> memory_;
};

}  // namespace troupe
