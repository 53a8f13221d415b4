// SPDX-License-Identifier: Apache-2.0
#include "tools/golden_runner/golden_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace troupe::golden {
namespace {

double NumberOf(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number()) return value.get<double>();
  const std::string text = value.is_string() ? value.get<std::string>() : "nan";
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

void AppendNumbers(const nlohmann::json& value, std::vector<double>& numbers) {
  if (!value.is_array()) return numbers.push_back(NumberOf(value));
  for (const nlohmann::json& element : value) AppendNumbers(element, numbers);
}

}  // namespace

std::vector<double> NumbersOf(const nlohmann::json& value) {
  std::vector<double> numbers;
  AppendNumbers(value, numbers);
  return numbers;
}

std::vector<int64_t> ShapeOf(const nlohmann::json& value) {
  std::vector<int64_t> shape;
  for (const nlohmann::json* level = &value; level->is_array(); level = &level->front()) {
    shape.push_back(static_cast<int64_t>(level->size()));
    if (level->empty()) break;
  }
  return shape;
}

void Check::Near(const std::string& what, const std::vector<double>& got, const std::vector<double>& want,
                 Tolerance tolerance) {
  if (got.size() != want.size()) {
    return That(false, absl::StrCat(what, " has ", got.size(), " values, not ", want.size()));
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double error = std::abs(got[i] - want[i]);
    if (std::isfinite(error)) worst_error_ = std::max(worst_error_, error / std::max(1.0, std::abs(want[i])));
    if (error <= tolerance.atol + tolerance.rtol * std::abs(want[i])) continue;  // false for NaN
    return That(false, absl::StrCat(what, "[", i, "] is ", got[i], ", should be ", want[i]));
  }
}

void Check::That(bool good, const std::string& what) {
  if (!good && failure_.empty()) failure_ = what;
}

std::map<std::string, Function>& Functions() {
  static auto* functions = new std::map<std::string, Function>;
  return *functions;
}

bool Register(const std::string& function, Function run) {
  return Functions().emplace(function, std::move(run)).second;
}

}  // namespace troupe::golden
