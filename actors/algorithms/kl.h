// SPDX-License-Identifier: Apache-2.0
// Estimators of KL(policy || reference) per token, and the KL in the reward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

// With d = logprob - ref_logprob:
//   kl, k1: d · abs: |d| · mse, k2: d^2 / 2 · low_var_kl, k3: exp(-d) + d - 1, with -d clamped to +-20 and the value to
//   +-10
// A trailing "+" (k3+) keeps the value and takes the gradient of k2. Source: J. Schulman, Approximating KL divergence,
// 2020.
absl::StatusOr<at::Tensor> KlPenalty(const at::Tensor& logprob, const at::Tensor& ref_logprob, const std::string& kind);

// InvalidArgument for an unknown kind, with the nearest one.
absl::Status CheckKlKind(const std::string& kind);

// R = score - kl_coef * kl, the KL zero outside the mask. All [rows, tokens].
struct KlInReward {
  at::Tensor token_level_rewards;
  double mean_kl = 0;  // mean over rows of each row's mean over its tokens
};
absl::StatusOr<KlInReward> ApplyKlPenalty(const at::Tensor& token_level_scores, const at::Tensor& old_log_prob,
                                          const at::Tensor& ref_log_prob, const at::Tensor& response_mask,
                                          double kl_coef, const std::string& kind);

}  // namespace troupe
