// SPDX-License-Identifier: Apache-2.0
//
// A Llama model small enough for unit tests, with logits that are far from even.

#pragma once

#include <cstdint>

#include "actors/model/files/model_config.h"
#include "actors/model/weights.h"

namespace troupe::rollout {

ModelConfig TinyConfig();
ModelWeights TinyWeights(uint32_t seed);
int64_t TinyPageBytes();  // of a page of 8 tokens, all layers

}  // namespace troupe::rollout
