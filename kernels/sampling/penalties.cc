// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/penalties.h"

#include <algorithm>
#include <vector>

namespace troupe::kernels {

void ApplyPenalties(const int32_t* history, int64_t length, const Penalties& penalties, float* logits,
                    int64_t vocabulary) {
  std::vector<int32_t> tokens(history, history + length);
  std::sort(tokens.begin(), tokens.end());
  for (auto token = tokens.begin(); token != tokens.end();) {
    const auto next = std::find_if(token, tokens.end(), [&](int32_t other) { return other != *token; });
    if (*token >= 0 && *token < vocabulary) {
      float& logit = logits[*token];
      logit = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
      logit -= static_cast<float>(next - token) * penalties.frequency + penalties.presence;
    }
    token = next;
  }
}

}  // namespace troupe::kernels
