// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/entropy.h"

#include <ATen/TensorOperators.h>

namespace troupe {

at::Tensor EntropyFromLogits(const at::Tensor& logits) {
  return logits.logsumexp(-1) - (logits.softmax(-1) * logits).sum(-1);
}

at::Tensor LogprobsFromLogits(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1);
}

}  // namespace troupe
