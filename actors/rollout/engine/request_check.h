// SPDX-License-Identifier: Apache-2.0
//
// Whether the engine can serve a request at all.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "actors/rollout/engine/request.h"

namespace troupe::rollout {

struct RequestLimits {
  int64_t vocab_size = 0;
  int64_t context_tokens = 0;  // prompt and response together
  int64_t cache_tokens = 0;    // positions the whole KV cache holds
};

// InvalidArgument names the request, the field, its value and what was expected.
absl::Status CheckRequest(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace troupe::rollout
