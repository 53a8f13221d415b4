// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: the factor of the base rate at each step. Those of transformers' get_scheduler.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

struct ScheduleOptions {
  std::string lr_scheduler_type = "constant";
  int64_t num_warmup_steps = 0;
  int64_t num_training_steps = 0;  // linear and cosine need it
  double num_cycles = 0.5;         // cosine: half a wave down to the end
  double min_lr_ratio = 0;         // linear and cosine: where they end
};

// constant: 1 · constant_with_warmup: step / warmup, then 1 · linear: up, then down to 0 at the last step ·
// cosine: up, then (1 + cos(2 pi num_cycles progress)) / 2, not below 0. What goes down, f, is min_lr_ratio +
// (1 - min_lr_ratio) f, as verl has it of cosine. `step` counts from 0.
// InvalidArgument for an unknown name (with the nearest one) or a missing length.
absl::StatusOr<double> LearningRateFactor(const ScheduleOptions& options, int64_t step);

}  // namespace troupe
