// SPDX-License-Identifier: Apache-2.0
// From rows of the experience stream to a TrainBatch.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "actors/trainer/core/train_batch.h"
#include "troupe/v1/roles.pb.h"

namespace troupe {

// `rows` in any order; `request` gives the order and the rewards. DATA_LOSS: a row of the request is not among them.
absl::StatusOr<TrainBatch> BatchOfRows(const v1::TrainStepRequest& request, const std::vector<v1::Row>& rows);

}  // namespace troupe
