// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/kl.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "actors/algorithms/masked.h"
#include "actors/algorithms/registry.h"

namespace troupe {
namespace {

const std::vector<std::string>& Kinds() {
  static const auto* kinds = new std::vector<std::string>{"kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3"};
  return *kinds;
}

std::string WithoutPlus(const std::string& kind) {
  return !kind.empty() && kind.back() == '+' ? kind.substr(0, kind.size() - 1) : kind;
}

at::Tensor Value(const at::Tensor& logprob, const at::Tensor& ref_logprob, const std::string& kind) {
  if (kind == "kl" || kind == "k1") return logprob - ref_logprob;
  if (kind == "abs") return (logprob - ref_logprob).abs();
  if (kind == "mse" || kind == "k2") return 0.5 * (logprob - ref_logprob).square();
  const at::Tensor negative = (ref_logprob - logprob).clamp(-20, 20);
  return (negative.exp() - negative - 1).clamp(-10, 10);
}

}  // namespace

absl::Status CheckKlKind(const std::string& kind) {
  const std::vector<std::string>& kinds = Kinds();
  if (std::find(kinds.begin(), kinds.end(), WithoutPlus(kind)) != kinds.end()) return absl::OkStatus();
  return UnknownName("KL estimator", kind, kinds);
}

absl::StatusOr<at::Tensor> KlPenalty(const at::Tensor& logprob, const at::Tensor& ref_logprob,
                                     const std::string& kind) {
  if (absl::Status status = CheckKlKind(kind); !status.ok()) return status;
  const std::string base = WithoutPlus(kind);
  const at::Tensor value = Value(logprob, ref_logprob, base);
  if (base == kind || base == "k2" || base == "mse") return value;
  const at::Tensor gradient_of = 0.5 * (logprob - ref_logprob).square();
  return gradient_of - gradient_of.detach() + value.detach();
}

absl::StatusOr<KlInReward> ApplyKlPenalty(const at::Tensor& token_level_scores, const at::Tensor& old_log_prob,
                                          const at::Tensor& ref_log_prob, const at::Tensor& response_mask,
                                          double kl_coef, const std::string& kind) {
  absl::StatusOr<at::Tensor> kl = KlPenalty(old_log_prob, ref_log_prob, kind);
  if (!kl.ok()) return kl.status();
  const at::Tensor masked = ZeroOutside(*kl, response_mask) * response_mask;
  KlInReward result;
  result.token_level_rewards = token_level_scores - kl_coef * masked;
  result.mean_kl = MaskedMean(masked, response_mask, -1).mean().item<double>();
  return result;
}

}  // namespace troupe
