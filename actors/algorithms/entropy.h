// SPDX-License-Identifier: Apache-2.0
// Entropy and log-probabilities from whole rows of logits. The trainer has them from the model by chunks
// (actors/model/packed); these are for callers that hold logits anyway, and the definition to test against.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe {

// H = logsumexp(z) - sum softmax(z) z. logits: [..., vocabulary]; result: [...].
at::Tensor EntropyFromLogits(const at::Tensor& logits);

// z[label] - logsumexp(z). labels: [...], int64.
at::Tensor LogprobsFromLogits(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace troupe
