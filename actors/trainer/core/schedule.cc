// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/algorithms/registry.h"

namespace troupe {
namespace {

using Factor = double (*)(const ScheduleOptions& options, double step);

double Constant(const ScheduleOptions&, double) { return 1; }

// Share of the steps after the warm-up that are done, or negative during it.
double Warmup(const ScheduleOptions& options, double step) {
  return step / static_cast<double>(std::max<int64_t>(1, options.num_warmup_steps));
}
bool InWarmup(const ScheduleOptions& options, double step) {
  return step < static_cast<double>(options.num_warmup_steps);
}
double StepsAfterWarmup(const ScheduleOptions& options) {
  return static_cast<double>(std::max<int64_t>(1, options.num_training_steps - options.num_warmup_steps));
}

double ConstantWithWarmup(const ScheduleOptions& options, double step) {
  return InWarmup(options, step) ? Warmup(options, step) : 1;
}

double Down(const ScheduleOptions& options, double factor) {
  return options.min_lr_ratio + (1 - options.min_lr_ratio) * std::max(0.0, factor);
}

double Linear(const ScheduleOptions& options, double step) {
  if (InWarmup(options, step)) return Warmup(options, step);
  return Down(options, (static_cast<double>(options.num_training_steps) - step) / StepsAfterWarmup(options));
}

double Cosine(const ScheduleOptions& options, double step) {
  if (InWarmup(options, step)) return Warmup(options, step);
  const double progress = (step - static_cast<double>(options.num_warmup_steps)) / StepsAfterWarmup(options);
  return Down(options, 0.5 * (1 + std::cos(std::numbers::pi * options.num_cycles * 2 * progress)));
}

struct Named {
  Factor factor;
  bool needs_length;
};

const std::map<std::string, Named>& Schedules() {
  static const auto* schedules =
      new std::map<std::string, Named>{{"constant", {&Constant, false}},
                                       {"constant_with_warmup", {&ConstantWithWarmup, false}},
                                       {"linear", {&Linear, true}},
                                       {"cosine", {&Cosine, true}}};
  return *schedules;
}

}  // namespace

absl::StatusOr<double> LearningRateFactor(const ScheduleOptions& options, int64_t step) {
  const auto found = Schedules().find(options.lr_scheduler_type);
  if (found == Schedules().end()) {
    std::vector<std::string> names;
    for (const auto& [name, named] : Schedules()) names.push_back(name);
    return UnknownName("lr_scheduler_type", options.lr_scheduler_type, names);
  }
  if (found->second.needs_length && options.num_training_steps <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("lr_scheduler_type ", options.lr_scheduler_type, " needs trainer.total_steps"));
  }
  return found->second.factor(options, static_cast<double>(step));
}

}  // namespace troupe
