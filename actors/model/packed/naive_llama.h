// SPDX-License-Identifier: Apache-2.0
// A deliberately simple Llama for tests: one whole sequence at a time, float64, LibTorch's autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/model/files/model_config.h"
#include "actors/model/weights.h"

namespace troupe {

class NaiveLlama {
 public:
  NaiveLlama(const ModelConfig& config, const ModelWeights& weights);

  // Logits of every position: [tokens, vocabulary].
  at::Tensor Logits(const std::vector<int32_t>& tokens) const;

  // Gradient of a parameter after backward(); zeros if there is none.
  at::Tensor Gradient(const std::string& name) const;

 private:
  at::Tensor P(const std::string& name) const { return parameters_.at(name); }
  at::Tensor Apply(const std::string& name, const at::Tensor& x) const;
  at::Tensor Norm(const std::string& name, const at::Tensor& x) const;
  at::Tensor Heads(const at::Tensor& x, int64_t heads, bool rotate) const;

  const ModelConfig config_;
  std::map<std::string, at::Tensor> parameters_;
};

// Weights for tests: every parameter from N(0, config.initializer_range), biases too, norms around one.
ModelWeights TestWeights(const ModelConfig& config, uint64_t seed);

}  // namespace troupe
