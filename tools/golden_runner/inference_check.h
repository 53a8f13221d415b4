// SPDX-License-Identifier: Apache-2.0
// The engine's forward pass against a case's prompts.
#pragma once

#include "actors/model/files/model_config.h"
#include "actors/model/weights.h"
#include "nlohmann/json.hpp"
#include "tools/golden_runner/golden_check.h"

namespace troupe::golden {

// Logits, the final hidden state and greedy tokens of `prompts`, a list as of the model/* cases.
void CheckInference(const ModelConfig& config, const ModelWeights& weights, const nlohmann::json& prompts, double atol,
                    Check& check);

}  // namespace troupe::golden
