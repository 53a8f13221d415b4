// SPDX-License-Identifier: Apache-2.0
// Golden cases: inputs and right outputs from public reference implementations. README.md tells the format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace troupe {

// One case; `inputs` is already resolved where the file says inputs_from.
struct GoldenCase {
  std::string name;
  std::string function;
  nlohmann::ordered_json config, inputs, outputs;
};

// The cases of tests/golden/FILE whose function begins with `function_prefix`. Throws when the file is missing or has
// none, so that a test cannot pass on nothing.
std::vector<GoldenCase> GoldenCases(const std::string& file, std::string_view function_prefix = "");

// A number, also "nan", "inf" and "-inf".
double GoldenNumber(const nlohmann::ordered_json& value);
std::vector<double> GoldenNumbers(const nlohmann::ordered_json& list);

// tests/golden/NAME: a file or folder beside the cases.
std::string GoldenPath(const std::string& name);

// The model that tools/setup fetches, SmolLM2-135M-Instruct as GGUF: $TROUPE_MODEL, or its place in the cache folder.
std::string GoldenModelPath();

}  // namespace troupe
