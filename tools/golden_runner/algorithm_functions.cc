// SPDX-License-Identifier: Apache-2.0
// Golden functions of actors/algorithms: verl's masked statistics, advantages, losses, KL and aggregation.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>

#include <cmath>

#include "actors/algorithms/adaptive_kl.h"
#include "actors/algorithms/advantages.h"
#include "actors/algorithms/entropy.h"
#include "actors/algorithms/kl.h"
#include "actors/algorithms/masked.h"
#include "actors/algorithms/policy_loss.h"
#include "tools/golden_runner/golden_check.h"
#include "tools/golden_runner/golden_tensor.h"
#include "tools/golden_runner/register_functions.h"

namespace troupe::golden {
namespace {

constexpr Tolerance kMetric{.rtol = 1e-6, .atol = 1e-6};  // counted in float32 by the reference

bool Has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Tolerance ToleranceOf(const Case& one, const std::string& tensor) {
  if (one.Dtype(tensor, "float64") == "float32") return {.rtol = 1e-5, .atol = 1e-6};
  if (Has(one.name, "large") || Has(one.name, "near_identical")) return {.rtol = 1e-5, .atol = 1e-12};
  if (one.function == "grpo" || one.function == "gpg") return {.rtol = 2e-7, .atol = 1e-12};  // float32 constants
  return {.rtol = 1e-9, .atol = 1e-12};
}

// True if there is nothing to compare: the reference refused, in which case so must ours, or ours did.
template <class T>
bool Refused(const Case& one, const absl::StatusOr<T>& result, Check& check) {
  if (one.refused()) {
    check.That(!result.ok(), "the reference refuses; ours does not");
    return true;
  }
  check.That(result.ok(), result.ok() ? "" : "refused: " + std::string(result.status().message()));
  return !result.ok();
}

std::map<std::string, OptionValue> OptionsOf(const Case& one) {
  std::map<std::string, OptionValue> options;
  for (const auto& [key, value] : one.config.items()) {
    if (value.is_boolean()) options[key] = value.get<bool>();
    if (value.is_number()) options[key] = value.get<double>();
  }
  if (options.count("epsilon") > 0) options["adv_epsilon"] = options["epsilon"];
  for (const char* bound : {"clip_ratio_low", "clip_ratio_high"}) {  // null: clip_ratio
    if (options.count("clip_ratio") > 0) options.emplace(bound, options["clip_ratio"]);
  }
  return options;
}

void RunAdvantage(const Case& one, Check& check) {
  AdvantageInputs inputs;
  inputs.token_level_rewards = Input(one, "token_level_rewards");
  inputs.response_mask = Input(one, "response_mask");
  if (one.inputs.contains("index")) inputs.index = Input(one, "index");
  if (one.inputs.contains("reward_baselines")) inputs.reward_baselines = Input(one, "reward_baselines");
  if (one.inputs.contains("values")) inputs.values = Input(one, "values");
  const absl::StatusOr<Advantages> result = ComputeAdvantages(one.function, inputs, OptionsOf(one));
  if (Refused(one, result, check)) return;
  std::vector<double> want = NumbersOf(one.outputs["advantages"]);
  if (one.suspect_kind == "bug" || one.function == "gae") {  // 0 where the mask is
    const std::vector<double> mask = ValuesOf(inputs.response_mask);
    for (size_t i = 0; i < want.size(); ++i) want[i] = mask[i] == 0 ? 0 : want[i];
  }
  const Tolerance tolerance = ToleranceOf(one, "token_level_rewards");
  check.Near("advantages", ValuesOf(result->advantages), want, tolerance);
  if (one.outputs.contains("returns")) {
    check.Near("returns", ValuesOf(result->returns), NumbersOf(one.outputs["returns"]), tolerance);
  }
}

std::optional<int64_t> AxisOf(const Case& one) {
  if (!one.config.contains("axis") || one.config["axis"].is_null()) return std::nullopt;
  return one.config["axis"].get<int64_t>();
}

// The reference's value, compared under the mask where ours is zero outside it.
void RunMasked(const Case& one, Check& check) {
  const at::Tensor values = Input(one, "values");
  const at::Tensor mask = Input(one, "mask");
  absl::StatusOr<at::Tensor> result;
  if (one.function == "masked_sum") result = MaskedSum(values, mask, AxisOf(one));
  if (one.function == "masked_mean") result = MaskedMean(values, mask, AxisOf(one));
  if (one.function == "masked_var") result = MaskedVar(values, mask, one.config.value("unbiased", true));
  if (one.function == "masked_whiten") result = MaskedWhiten(values, mask, one.config.value("shift_mean", true));
  if (Refused(one, result, check)) return;
  at::Tensor want = TensorOf(one.outputs["out"], one.Dtype("values", "float64"));
  if (one.function == "masked_whiten") want = ZeroOutside(want, mask);
  check.Near("out", ValuesOf(*result), ValuesOf(want), ToleranceOf(one, "values"));
}

Aggregation AggregationOf(const nlohmann::json& config, const nlohmann::json& counts) {
  Aggregation aggregation;
  aggregation.loss_agg_mode = config.at("loss_agg_mode");
  const auto number = [&](const char* name) -> std::optional<double> {
    if (!counts.contains(name) || counts[name].is_null()) return std::nullopt;
    return counts[name].get<double>();
  };
  aggregation.batch_num_tokens = number("batch_num_tokens");
  aggregation.global_batch_size = number("global_batch_size");
  aggregation.loss_scale_factor = number("loss_scale_factor");
  aggregation.dp_size = number("dp_size").value_or(1);
  return aggregation;
}

void RunAggLoss(const Case& one, Check& check) {
  const at::Tensor losses = Input(one, "loss_mat").requires_grad_(true);
  const absl::StatusOr<at::Tensor> loss =
      AggregateLoss(losses, Input(one, "loss_mask"), AggregationOf(one.config, one.config));
  if (Refused(one, loss, check)) return;
  loss->backward();
  const Tolerance tolerance = ToleranceOf(one, "loss_mat");
  check.Near("loss", loss->item<double>(), NumbersOf(one.outputs["loss"])[0], tolerance);
  check.Near("grad", ValuesOf(losses.grad()), NumbersOf(one.outputs["grad"]), tolerance);
}

void RunKl(const Case& one, Check& check) {
  const at::Tensor logprob = Input(one, "logprob").requires_grad_(true);
  const absl::StatusOr<at::Tensor> kl = KlPenalty(logprob, Input(one, "ref_logprob"), one.config.at("kl_penalty"));
  if (Refused(one, kl, check)) return;
  kl->sum().backward();
  const Tolerance tolerance = ToleranceOf(one, "logprob");
  check.Near("kl", ValuesOf(*kl), NumbersOf(one.outputs["kl"]), tolerance);
  check.Near("grad", ValuesOf(logprob.grad()), NumbersOf(one.outputs["grad"]), tolerance);
}

void RunFromLogits(const Case& one, Check& check) {
  const at::Tensor logits = Input(one, "logits").requires_grad_(true);
  const at::Tensor mask = Input(one, "response_mask");
  const Tolerance tolerance = ToleranceOf(one, "logits");
  at::Tensor loss;
  if (one.function == "entropy_loss") {
    loss = AggregateLoss(EntropyFromLogits(logits), mask, AggregationOf(one.config, nlohmann::json::object())).value();
    check.Near("loss", loss.item<double>(), NumbersOf(one.outputs["loss"])[0], tolerance);
  } else {
    const bool entropy = one.function == "entropy_from_logits";
    const at::Tensor values = entropy ? EntropyFromLogits(logits) : LogprobsFromLogits(logits, Input(one, "labels"));
    check.Near("values", ValuesOf(values), NumbersOf(one.outputs[entropy ? "entropy" : "logprobs"]), tolerance);
    loss = (values * mask).sum();
  }
  loss.backward();
  check.Near("grad", ValuesOf(logits.grad()), NumbersOf(one.outputs["grad"]), tolerance);
}

void RunController(const Case& one, Check& check) {
  AdaptiveKlController controller{.kl_coef = one.config.at("kl_coef"),
                                  .target_kl = one.config.at("target_kl"),
                                  .horizon = one.config.at("horizon")};
  const std::vector<double> kl = NumbersOf(one.inputs["current_kl"]);
  const std::vector<double> steps = NumbersOf(one.inputs["n_steps"]);
  std::vector<double> values;
  for (size_t i = 0; i < kl.size(); ++i) {
    controller.Update(kl[i], static_cast<int64_t>(steps[i]));
    values.push_back(controller.kl_coef);
  }
  check.Near("value_after", values, NumbersOf(one.outputs["value_after"]), ToleranceOf(one, ""));
}

void RunKlInReward(const Case& one, Check& check) {
  const at::Tensor mask = Input(one, "response_mask");
  const nlohmann::json& control = one.config.at("controller");
  AdaptiveKlController controller{
      .kl_coef = control.at("kl_coef"), .target_kl = control.at("target_kl"), .horizon = control.at("horizon")};
  const absl::StatusOr<KlInReward> result =
      ApplyKlPenalty(Input(one, "token_level_scores"), Input(one, "old_log_probs"), Input(one, "ref_log_prob"), mask,
                     controller.kl_coef, one.config.at("kl_penalty"));
  if (Refused(one, result, check)) return;
  const Tolerance tolerance = ToleranceOf(one, "token_level_scores");
  check.Near("token_level_rewards", ValuesOf(result->token_level_rewards),
             NumbersOf(one.outputs["token_level_rewards"]), tolerance);
  check.Near("kl", result->mean_kl, NumbersOf(one.outputs["metrics"]["actor/reward_kl_penalty"])[0], kMetric);
  controller.Update(result->mean_kl, mask.size(0));
  check.Near("kl_coef_after", controller.kl_coef, NumbersOf(one.outputs["kl_coef_after"])[0], tolerance);
}

// R = score - kl_ratio (old - ref), on every token.
void RunComputeRewards(const Case& one, Check& check) {
  const at::Tensor scores = Input(one, "token_level_scores");
  const absl::StatusOr<KlInReward> result =
      ApplyKlPenalty(scores, Input(one, "old_log_prob"), Input(one, "ref_log_prob"), at::ones_like(scores),
                     one.config.at("kl_ratio"), "kl");
  if (Refused(one, result, check)) return;
  check.Near("token_level_rewards", ValuesOf(result->token_level_rewards),
             NumbersOf(one.outputs["token_level_rewards"]), ToleranceOf(one, "token_level_scores"));
}

PolicyLossInputs LossInputsOf(const Case& one) {
  PolicyLossInputs inputs;
  inputs.old_log_prob = Input(one, "old_log_prob");
  inputs.log_prob = Input(one, "log_prob").requires_grad_(true);
  inputs.advantages = Input(one, "advantages");
  inputs.response_mask = Input(one, "response_mask");
  if (one.config.value("use_rollout_is_weights", false)) inputs.rollout_is_weights = Input(one, "rollout_is_weights");
  inputs.aggregation = AggregationOf(one.config, one.config.value("global_batch_info", nlohmann::json::object()));
  return inputs;
}

// What the recommendation for masked NaN and Inf means: the same case with zeros there.
void CompareWithClean(const Case& one, const PolicyLossInputs& inputs, const at::Tensor& loss, Check& check) {
  PolicyLossInputs clean = inputs;
  clean.log_prob = ZeroOutside(inputs.log_prob.detach(), inputs.response_mask).requires_grad_(true);
  clean.old_log_prob = ZeroOutside(inputs.old_log_prob, inputs.response_mask);
  const absl::StatusOr<PolicyLoss> result = ComputePolicyLoss(one.config.at("loss_mode"), clean, OptionsOf(one));
  if (!result.ok()) return check.That(false, std::string(result.status().message()));
  result->loss.backward();
  const double value = loss.item<double>();
  check.That(std::isfinite(value), "the loss is not finite");
  check.Near("loss", value, result->loss.item<double>(), {});
  check.Near("grad", ValuesOf(inputs.log_prob.grad()), ValuesOf(clean.log_prob.grad()), {});
  const double reference = NumbersOf(one.outputs["loss"])[0];
  const bool all_masked = Has(one.name, "all_masked");
  if (all_masked) check.Near("loss of a masked batch", value, 0, {});
  if (!all_masked && std::isfinite(reference)) check.Near("loss", value, reference, ToleranceOf(one, "log_prob"));
}

void RunPolicyLoss(const Case& one, Check& check) {
  const PolicyLossInputs inputs = LossInputsOf(one);
  const absl::StatusOr<PolicyLoss> result = ComputePolicyLoss(one.config.at("loss_mode"), inputs, OptionsOf(one));
  if (Refused(one, result, check)) return;
  result->loss.backward();
  if (one.suspect_kind == "bug") return CompareWithClean(one, inputs, result->loss, check);
  const Tolerance tolerance = ToleranceOf(one, "log_prob");
  check.Near("loss", result->loss.item<double>(), NumbersOf(one.outputs["loss"])[0], tolerance);
  check.Near("grad", ValuesOf(inputs.log_prob.grad()), NumbersOf(one.outputs["grad"]), tolerance);
  for (const auto& [name, value] : one.outputs["metrics"].items()) {
    const auto found = result->metrics.find(name);
    check.That(found != result->metrics.end(), "no metric " + name);
    if (found != result->metrics.end()) check.Near(name, found->second, NumbersOf(value)[0], kMetric);
  }
}

bool RegisterAll() {
  for (const std::string& name : AdvantageRegistry::Get().Names()) Register(name, &RunAdvantage);
  for (const std::string& name : PolicyLossRegistry::Get().Names()) Register("policy_loss/" + name, &RunPolicyLoss);
  for (const char* name : {"masked_sum", "masked_mean", "masked_var", "masked_whiten"}) Register(name, &RunMasked);
  for (const char* name : {"entropy_loss", "entropy_from_logits", "logprobs_from_logits"})
    Register(name, &RunFromLogits);
  Register("agg_loss", &RunAggLoss);
  Register("kl_penalty", &RunKl);
  Register("adaptive_kl_controller", &RunController);
  Register("apply_kl_penalty", &RunKlInReward);
  return Register("compute_rewards", &RunComputeRewards);
}

}  // namespace

void RegisterFunctions() { [[maybe_unused]] static const bool registered = RegisterAll(); }

}  // namespace troupe::golden
