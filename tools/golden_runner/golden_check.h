// SPDX-License-Identifier: Apache-2.0
// Comparing numbers with a case's, and the table of functions that can be run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/golden_runner/golden_case.h"

namespace troupe::golden {

struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

// The numbers of a nested list in row-major order; "nan", "inf" and "-inf" are what they say, true is 1.
std::vector<double> NumbersOf(const nlohmann::json& value);
std::vector<int64_t> ShapeOf(const nlohmann::json& value);

// What became of one case: the first failure, and the largest difference seen (over |want| where that is above 1).
class Check {
 public:
  // |got - want| <= atol + rtol |want| for each; NaN equals NaN.
  void Near(const std::string& what, const std::vector<double>& got, const std::vector<double>& want,
            Tolerance tolerance);
  void Near(const std::string& what, double got, double want, Tolerance tolerance) {
    Near(what, std::vector{got}, std::vector{want}, tolerance);
  }
  void That(bool good, const std::string& what);

  bool ok() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }
  double worst_error() const { return worst_error_; }

 private:
  std::string failure_;
  double worst_error_ = 0;
};

// Runs a case of the function it is registered for and says by `check` how it went.
using Function = std::function<void(const Case&, Check& check)>;

// Filled by static initialisers of the *_functions.cc files.
std::map<std::string, Function>& Functions();
bool Register(const std::string& function, Function run);

}  // namespace troupe::golden
