// SPDX-License-Identifier: Apache-2.0
//
// A response on its way: its request and what was made so far.

#pragma once

#include <cstdint>
#include <optional>

#include "actors/model/files/model_config.h"
#include "actors/model/model_version.h"
#include "actors/rollout/engine/request.h"
#include "kernels/sampling/sampling.h"

namespace troupe::rollout {

struct Response {
  GenerationRequest request;
  int64_t arrival = 0;
  Generation generation;

  // Tokens of the response, those it came with included: the position of the next one.
  int64_t made() const { return static_cast<int64_t>(request.generated.size() + generation.tokens.size()); }

  // The next token, made under `version`; spans grow with it.
  void Append(const kernels::SampledToken& token, const ModelVersion& version, bool mixed_kv);

  // Why the response ends with its last token, if it does. An end token counts before the length.
  std::optional<FinishReason> EndOf(const ModelConfig& config) const;
};

// How its next token is to be sampled, its random number included.
kernels::SamplingRow SamplingOf(const Response& response);

}  // namespace troupe::rollout
