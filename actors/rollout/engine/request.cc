// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/request.h"

namespace troupe::rollout {

std::string_view NameOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

}  // namespace troupe::rollout
