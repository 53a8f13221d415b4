// SPDX-License-Identifier: Apache-2.0
// The weights and architecture of a model on disk, whatever its format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "actors/model/files/model_config.h"

namespace troupe {

struct TensorInfo {
  std::string name;            // Hugging Face's: model.layers.0.self_attn.q_proj.weight
  std::vector<int64_t> shape;  // row-major, [out_features, in_features] for a projection
  std::string stored_type;     // F32, BF16, F16, Q4_1, ...

  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return n;
  }
};

// A memory-mapped model: a .gguf file, or a Hugging Face folder (config.json with model.safetensors, or shards named by
// model.safetensors.index.json). Opening checks that the tensors are exactly those that the configuration implies
// (shapes too), so that every name of ParameterShapes(config()) can be read. Names and layouts are Hugging Face's:
// the q and k rows that llama.cpp permutes are put back.
// Immutable once open: any thread may read. The file must not be changed or cut while it is open.
class ModelSource {
 public:
  // NOT_FOUND: no such file, or a folder without config.json or weights. INVALID_ARGUMENT: corrupt or inconsistent;
  // UNIMPLEMENTED: an architecture, rope type or tensor type that is not supported. Each names the file and the field.
  static absl::StatusOr<std::unique_ptr<ModelSource>> Open(const std::string& path);

  virtual ~ModelSource() = default;

  const ModelConfig& config() const { return config_; }

  // In the order of ParameterShapes(config()).
  absl::Span<const TensorInfo> tensors() const { return tensors_; }

  // nullptr if the model has no such tensor.
  const TensorInfo* Find(std::string_view name) const;

  // Fills `out` (exactly num_elements() floats) with the tensor converted to float32, row-major.
  // NOT_FOUND: no such tensor; INVALID_ARGUMENT: `out` has another size.
  absl::Status Read(std::string_view name, absl::Span<float> out) const;

 protected:
  ModelSource() = default;
  void AddTensor(TensorInfo info);
  // `index` into tensors(); `out` has the right size.
  virtual absl::Status ReadTensor(size_t index, absl::Span<float> out) const = 0;

  ModelConfig config_;

 private:
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace troupe
