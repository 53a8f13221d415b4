// SPDX-License-Identifier: Apache-2.0
// loss_agg_mode: from a loss per token to one number.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

// The counts are over all rows of one optimizer step: a mini-batch with all its micro-batches and ranks. Left out, they
// are those of the call's own rows, which is right only if there is one micro-batch. With them the sum over
// micro-batches of AggregateLoss does not depend on the split.
struct Aggregation {
  // token-mean, token-sum, seq-mean-token-sum, seq-mean-token-mean, seq-mean-token-sum-norm
  std::string loss_agg_mode = "token-mean";
  std::optional<double> batch_num_tokens;
  std::optional<double> global_batch_size;  // rows with at least one token
  std::optional<double> loss_scale_factor;  // seq-mean-token-sum-norm; left out: the width of the mask
  double dp_size = 1;                       // ranks whose gradients are averaged afterwards
};

// InvalidArgument for an unknown mode (with the nearest one).
absl::Status CheckLossAggMode(const std::string& loss_agg_mode);

// loss_mat, loss_mask: [rows, tokens]. A scalar; 0 with gradient 0 where every token is masked.
absl::StatusOr<at::Tensor> AggregateLoss(const at::Tensor& loss_mat, const at::Tensor& loss_mask,
                                         const Aggregation& aggregation);

}  // namespace troupe
