// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/aggregation.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/algorithms/masked.h"
#include "actors/algorithms/registry.h"

namespace troupe {
namespace {

const std::vector<std::string>& Modes() {
  static const auto* modes = new std::vector<std::string>{"token-mean", "token-sum", "seq-mean-token-sum",
                                                          "seq-mean-token-mean", "seq-mean-token-sum-norm"};
  return *modes;
}

// A count of zero means that nothing counts: the sum above it is zero too.
double Positive(double count) { return count > 0 ? count : 1; }

}  // namespace

absl::Status CheckLossAggMode(const std::string& loss_agg_mode) {
  const std::vector<std::string>& modes = Modes();
  if (std::find(modes.begin(), modes.end(), loss_agg_mode) != modes.end()) return absl::OkStatus();
  return UnknownName("loss_agg_mode", loss_agg_mode, modes);
}

absl::StatusOr<at::Tensor> AggregateLoss(const at::Tensor& loss_mat, const at::Tensor& loss_mask,
                                         const Aggregation& aggregation) {
  const std::string& mode = aggregation.loss_agg_mode;
  if (absl::Status status = CheckLossAggMode(mode); !status.ok()) return status;
  if (mode == "token-sum") return MaskedSum(loss_mat, loss_mask) * aggregation.dp_size;
  if (mode == "token-mean") {
    if (!aggregation.batch_num_tokens && aggregation.dp_size > 1) {
      return absl::InvalidArgumentError("token-mean over several ranks needs batch_num_tokens");
    }
    const double tokens = aggregation.batch_num_tokens ? *aggregation.batch_num_tokens : loss_mask.sum().item<double>();
    return MaskedSum(loss_mat, loss_mask) / Positive(tokens) * aggregation.dp_size;
  }
  if (!aggregation.global_batch_size && aggregation.dp_size > 1) {
    return absl::InvalidArgumentError(absl::StrCat(mode, " over several ranks needs global_batch_size"));
  }
  const at::Tensor lengths = loss_mask.sum(-1);
  at::Tensor sequences = MaskedSum(loss_mat, loss_mask, -1);
  if (mode == "seq-mean-token-mean") sequences = sequences / (lengths + 1e-8);
  const double rows =
      aggregation.global_batch_size ? *aggregation.global_batch_size : (lengths > 0).sum().item<double>();
  at::Tensor loss = sequences.sum() / Positive(rows) * aggregation.dp_size;
  if (mode == "seq-mean-token-sum-norm") {
    loss = loss / aggregation.loss_scale_factor.value_or(static_cast<double>(loss_mask.size(-1)));
  }
  return loss;
}

}  // namespace troupe
