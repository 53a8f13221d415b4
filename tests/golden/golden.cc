// SPDX-License-Identifier: Apache-2.0
// Reads golden cases.
#include "tests/golden/golden.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>

namespace troupe {

std::vector<GoldenCase> GoldenCases(const std::string& file, std::string_view function_prefix) {
  std::ifstream in(GoldenPath(file));
  if (!in) throw std::runtime_error("no golden file " + GoldenPath(file));
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(in);
  std::map<std::string, const nlohmann::ordered_json*> inputs;
  std::vector<GoldenCase> cases;
  for (const nlohmann::ordered_json& item : json.at("cases")) {
    if (item.contains("inputs")) inputs[item.at("case")] = &item.at("inputs");
    std::string function = item.at("function");
    if (function.rfind(function_prefix, 0) != 0) continue;
    const nlohmann::ordered_json& resolved =
        item.contains("inputs_from") ? *inputs.at(item.at("inputs_from")) : item.at("inputs");
    cases.push_back({item.at("case"), function, item.at("config"), resolved, item.at("outputs")});
  }
  if (cases.empty()) throw std::runtime_error("no golden cases of " + std::string(function_prefix) + " in " + file);
  return cases;
}

double GoldenNumber(const nlohmann::ordered_json& value) {
  if (!value.is_string()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::runtime_error("no number: " + value.dump());
}

std::vector<double> GoldenNumbers(const nlohmann::ordered_json& list) {
  std::vector<double> out;
  for (const nlohmann::ordered_json& value : list) out.push_back(GoldenNumber(value));
  return out;
}

std::string GoldenPath(const std::string& name) { return "tests/golden/" + name; }

std::string GoldenModelPath() {
  if (const char* path = std::getenv("TROUPE_MODEL")) return path;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string base = cache != nullptr && *cache != 0 ? cache : std::string(home != nullptr ? home : "") + "/.cache";
  return base + "/troupe/SmolLM2-135M-Instruct.gguf";
}

}  // namespace troupe
