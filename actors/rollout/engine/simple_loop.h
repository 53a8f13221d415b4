// SPDX-License-Identifier: Apache-2.0
//
// The simplest possible way to generate, which the engine must equal: one sequence, no cache, the whole of it computed
// anew for each token, everything sorted to sample.

#pragma once

#include <map>
#include <memory>

#include "actors/model/llama/llama_inference.h"
#include "actors/rollout/engine/request.h"
#include "kernels/sampling/sampling.h"

namespace troupe::rollout {

class SimpleLoop {
 public:
  explicit SimpleLoop(const ModelConfig& config);

  void SetWeights(const ModelVersion& version, ModelWeights weights);

  // All under one version.
  Generation Generate(const GenerationRequest& request, const ModelVersion& version);

  // As many tokens as `made` has, each under the version that its spans tell; its finish reason is kept where it is an
  // abort.
  Generation Replay(const GenerationRequest& request, const Generation& made);

 private:
  kernels::SampledToken Next(const GenerationRequest& request, const Generation& so_far, const ModelVersion& version);

  ModelConfig config_;
  std::map<ModelVersion, std::unique_ptr<LlamaInference>> models_;
};

}  // namespace troupe::rollout
