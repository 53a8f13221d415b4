// SPDX-License-Identifier: Apache-2.0
#include "actors/model/llama/kv_cache.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace troupe {

absl::StatusOr<KvCache> KvCache::Create(const ModelConfig& config, int64_t page_tokens, int64_t bytes) {
  KvCache cache;
  cache.shape_ = {config.num_key_value_heads, config.head_dim, page_tokens};
  cache.layers_ = config.num_hidden_layers;
  const int64_t page_bytes = 2 * cache.layers_ * cache.shape_.page_floats() * static_cast<int64_t>(sizeof(float));
  cache.num_pages_ = std::min<int64_t>(bytes / page_bytes, INT32_MAX);
  if (cache.num_pages_ < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a KV cache of ", bytes, " bytes is less than one page of ",
                                                   page_tokens, " tokens (", page_bytes,
                                                   " bytes); give it more memory"));
  }
  const int64_t total_bytes = cache.num_pages_ * page_bytes;
  cache.memory_.reset(static_cast<float*>(std::calloc(static_cast<size_t>(total_bytes), 1)));
  if (cache.memory_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a KV cache of ", total_bytes, " bytes"));
  }
  return cache;
}

void KvCache::CopyPage(int32_t from, int32_t to) {
  const int64_t floats = shape_.page_floats();
  for (int64_t layer = 0; layer < layers_; ++layer) {
    std::copy_n(keys(layer) + from * floats, floats, keys(layer) + to * floats);
    std::copy_n(values(layer) + from * floats, floats, values(layer) + to * floats);
  }
}

}  // namespace troupe
