// SPDX-License-Identifier: Apache-2.0
// AdamWState: the optimizer of one model, its moments in the layout of the weights, on disk as safetensors.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "actors/model/weights.h"
#include "actors/trainer/core/trainer_options.h"

namespace troupe {

struct OptimizerStepResult {
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the gradient was not finite: parameters and moments are as before
};

class AdamWState {
 public:
  explicit AdamWState(const WeightLayout& layout);

  // Clips the gradient by its global norm and updates `weights` in place. All three have one layout.
  OptimizerStepResult Step(const OptimOptions& options, double lr, const ModelWeights& gradients,
                           ModelWeights& weights);

  int64_t steps() const { return steps_; }

  // One file with "exp_avg." and "exp_avg_sq." before each parameter's name.
  absl::Status Save(const std::string& path) const;
  // INVALID_ARGUMENT names what is missing or of another size; then nothing is changed.
  absl::Status Load(const std::string& path, int64_t steps);

 private:
  ModelWeights exp_avg_;
  ModelWeights exp_avg_sq_;
  int64_t steps_ = 0;
};

// The whole buffer as floats; padding between parameters is zero and stays so.
absl::Span<float> FlatFloats(const ModelWeights& weights);

}  // namespace troupe
