// SPDX-License-Identifier: Apache-2.0
// Policy losses by name (actor.policy_loss.loss_mode).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "actors/algorithms/aggregation.h"
#include "actors/algorithms/registry.h"

namespace troupe {

// All [rows, tokens], one element type. Only log_prob carries a gradient.
struct PolicyLossInputs {
  at::Tensor old_log_prob;
  at::Tensor log_prob;
  at::Tensor advantages;
  at::Tensor response_mask;
  at::Tensor rollout_is_weights;  // undefined: none
  Aggregation aggregation;
};

struct PolicyLoss {
  at::Tensor loss;                        // a scalar
  std::map<std::string, double> metrics;  // means over this call's response tokens
};

struct PolicyLossTag {
  static constexpr std::string_view kKind = "loss_mode";
};
using PolicyLossFunction = absl::StatusOr<PolicyLoss> (*)(const PolicyLossInputs&, const OptionValues&);
using PolicyLossRegistry = AlgorithmRegistry<PolicyLossTag, PolicyLossFunction>;

// Runs the loss of this name. What stands outside the mask (NaN too) has no influence; fully masked: loss 0.
absl::StatusOr<PolicyLoss> ComputePolicyLoss(const std::string& loss_mode, const PolicyLossInputs& inputs,
                                             const std::map<std::string, OptionValue>& options);

}  // namespace troupe
