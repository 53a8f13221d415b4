// SPDX-License-Identifier: Apache-2.0
// Golden functions of the trainer: AdamW, clipping and schedules.
#include <algorithm>
#include <cmath>

#include "actors/trainer/core/adamw.h"
#include "actors/trainer/core/schedule.h"
#include "tools/golden_runner/golden_check.h"

namespace troupe::golden {
namespace {

std::vector<double> Joined(const nlohmann::json& tensors) { return NumbersOf(tensors); }

ScheduleOptions ScheduleOf(const nlohmann::json& config, const std::string& type) {
  return {.lr_scheduler_type = type,
          .num_warmup_steps = config.value("num_warmup_steps", int64_t{0}),
          .num_training_steps = config.value("num_training_steps", int64_t{0}),
          .num_cycles = config.value("num_cycles", 0.5)};
}

template <class T>
std::vector<T> As(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

template <class T>
std::vector<double> Back(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class T>
double NormOf(const std::vector<T>& gradients) {
  if constexpr (std::is_same_v<T, float>) return GradNorm(gradients);
  double squares = 0;
  for (double g : gradients) squares += g * g;
  return std::sqrt(squares);
}

// Steps until the first gradient that is not finite are the reference's; that one must leave everything as it was.
template <class T>
void RunSteps(const Case& one, double rtol, Check& check) {
  const nlohmann::json& config = one.config;
  std::vector<T> params = As<T>(Joined(one.inputs["params"]));
  std::vector<T> m(params.size()), v(params.size()), largest;
  if (config.value("amsgrad", false)) largest.resize(params.size());
  const double clip = config["clip_grad_norm"].is_null() ? 0 : config["clip_grad_norm"].get<double>();
  const double sign = config.value("maximize", false) ? -1 : 1;
  bool like_reference = true;
  int64_t updates = 0;
  for (size_t i = 0; i < one.outputs["steps"].size(); ++i) {
    const nlohmann::json& want = one.outputs["steps"][i];
    const std::vector<T> gradients = As<T>(Joined(one.inputs["grads_per_step"][i]));
    double lr = config["lr"];
    if (config.contains("schedule"))
      lr *= LearningRateFactor(ScheduleOf(config, config["schedule"]), static_cast<int64_t>(i)).value();
    check.Near("lr", lr, NumbersOf(want["lr"])[0], {.rtol = 1e-12});
    const double norm = NormOf(gradients);
    if (want.contains("total_norm")) check.Near("total_norm", norm, NumbersOf(want["total_norm"])[0], {.rtol = 2e-6});
    if (!std::isfinite(norm)) {
      like_reference = false;
      continue;
    }
    AdamWUpdate<T>({.lr = lr,
                    .beta1 = config["betas"][0],
                    .beta2 = config["betas"][1],
                    .eps = config["eps"],
                    .weight_decay = config["weight_decay"],
                    .step = ++updates,
                    .grad_scale = sign * ClipFactor(static_cast<T>(norm), static_cast<T>(clip))},
                   gradients, absl::MakeSpan(params), absl::MakeSpan(m), absl::MakeSpan(v), absl::MakeSpan(largest));
    for (T p : params) check.That(std::isfinite(p), "a parameter is not finite");
    // A parameter near zero is held to the rounding of the update that brought it there.
    if (like_reference) check.Near("params", Back(params), Joined(want["params"]), {.rtol = rtol, .atol = rtol * lr});
  }
  if (!like_reference) return;
  const nlohmann::json& state = one.outputs["state_of_first_param"];
  const std::vector<double> want_first = NumbersOf(state["exp_avg"]);
  std::vector<double> first = Back(m);
  first.resize(want_first.size());
  double largest_moment = 0;
  for (double moment : want_first) largest_moment = std::max(largest_moment, std::abs(moment));
  check.Near("exp_avg", first, want_first, {.rtol = rtol, .atol = rtol * largest_moment});
}

void RunAdamW(const Case& one, Check& check) {
  if (one.config.value("dtype", "float32") == "float64") return RunSteps<double>(one, 1e-12, check);
  RunSteps<float>(one, 2e-6, check);
}

void RunClip(const Case& one, Check& check) {
  const std::vector<float> gradients = As<float>(Joined(one.inputs["grads"]));
  const nlohmann::json& type = one.config["norm_type"];
  const double norm_type = type.is_string() ? INFINITY : type.get<double>();
  const double norm = GradNorm(gradients, norm_type);
  check.Near("total_norm", norm, NumbersOf(one.outputs["total_norm"])[0], {.rtol = 2e-6});
  std::vector<double> clipped;
  for (float g : gradients)
    clipped.push_back(g * ClipFactor(static_cast<float>(norm), one.config["max_norm"].get<float>()));
  check.Near("clipped", clipped, Joined(one.outputs["clipped"]), {.rtol = 2e-6, .atol = 1e-12});
}

void RunSchedule(const Case& one, Check& check) {
  const ScheduleOptions options = ScheduleOf(one.config, one.function.substr(std::string("schedule/").size()));
  const std::vector<double> want = NumbersOf(one.outputs["lr_per_step"]);
  std::vector<double> got;
  for (size_t step = 0; step < want.size(); ++step) {
    const absl::StatusOr<double> factor = LearningRateFactor(options, static_cast<int64_t>(step));
    check.That(factor.ok(), std::string(factor.status().message()));
    got.push_back(factor.value_or(0) * one.config["base_lr"].get<double>());
  }
  check.Near("lr", got, want, {.rtol = 1e-12, .atol = 1e-18});
}

[[maybe_unused]] const bool kRegistered =
    Register("optim/AdamW", &RunAdamW) && Register("optim/clip_grad_norm_", &RunClip) &&
    Register("schedule/constant", &RunSchedule) && Register("schedule/constant_with_warmup", &RunSchedule) &&
    Register("schedule/linear", &RunSchedule) && Register("schedule/cosine", &RunSchedule);

}  // namespace
}  // namespace troupe::golden
