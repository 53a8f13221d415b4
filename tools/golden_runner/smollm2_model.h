// SPDX-License-Identifier: Apache-2.0
// SmolLM2 for the cases of smollm2.json: $TROUPE_MODEL, or where tools/setup leaves it. Opened and read once.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "actors/model/files/model_source.h"
#include "actors/model/weights.h"

namespace troupe::golden {

std::string SmolLm2Path();
absl::StatusOr<const ModelSource*> SmolLm2Source();
absl::StatusOr<ModelWeights> SmolLm2Weights();

}  // namespace troupe::golden
