// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/policy_loss.h"

#include "actors/algorithms/masked.h"

namespace troupe {

absl::StatusOr<PolicyLoss> ComputePolicyLoss(const std::string& loss_mode, const PolicyLossInputs& inputs,
                                             const std::map<std::string, OptionValue>& options) {
  absl::StatusOr<const PolicyLossRegistry::Entry*> entry = PolicyLossRegistry::Get().Find(loss_mode);
  if (!entry.ok()) return entry.status();
  absl::StatusOr<OptionValues> values = OptionValues::Pick((*entry)->spec, options);
  if (!values.ok()) return values.status();
  PolicyLossInputs clean = inputs;
  clean.old_log_prob = ZeroOutside(inputs.old_log_prob, inputs.response_mask);
  clean.log_prob = ZeroOutside(inputs.log_prob, inputs.response_mask);
  clean.advantages = ZeroOutside(inputs.advantages, inputs.response_mask);
  if (inputs.rollout_is_weights.defined()) {
    clean.rollout_is_weights = ZeroOutside(inputs.rollout_is_weights, inputs.response_mask);
  }
  return (*entry)->function(clean, *values);
}

}  // namespace troupe
