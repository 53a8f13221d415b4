// SPDX-License-Identifier: Apache-2.0
// AdamW and gradient norms over flat float arrays. Threads split the elements; results do not depend on their number.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace troupe {

// One step's constants. Source: Loshchilov & Hutter 2019, in the order of operations of torch.optim.AdamW.
struct AdamWStep {
  double lr = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t step = 1;       // from 1: bias corrections
  double grad_scale = 1;  // gradients are multiplied by it first (clipping)
};

// All spans are of one length; the moments are zero before the first step. max_exp_avg_sq: empty, or kept for AMSGrad.
// T: float or double.
template <class T>
void AdamWUpdate(const AdamWStep& options, absl::Span<const T> gradients, absl::Span<T> parameters,
                 absl::Span<T> exp_avg, absl::Span<T> exp_avg_sq, absl::Span<T> max_exp_avg_sq = {});

// Global norm of this type (1, 2 or infinity); NaN or Inf if an element is.
double GradNorm(absl::Span<const float> gradients, double norm_type = 2);

// What clip_grad_norm_ multiplies gradients by: min(1, max_norm / (norm + 1e-6)); 1 if max_norm is 0 or less.
double ClipFactor(double norm, double max_norm);
float ClipFactor(float norm, float max_norm);  // in float32 arithmetic, as torch does for float32 gradients

}  // namespace troupe
