// SPDX-License-Identifier: Apache-2.0
// SmolLM2 for the cases of smollm2.json: $TROUPE_MODEL, or where tools/setup leaves it. Opened once.
#pragma once

#include "absl/status/statusor.h"
#include "actors/model/files/model_source.h"

namespace troupe::golden {

absl::StatusOr<const ModelSource*> SmolLm2Source();

}  // namespace troupe::golden
