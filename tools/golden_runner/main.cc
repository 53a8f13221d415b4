// SPDX-License-Identifier: Apache-2.0
// golden_runner DIR: runs every case of a golden folder; a line a function, then the first failures.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "tools/golden_runner/golden_check.h"
#include "tools/golden_runner/register_functions.h"

namespace troupe::golden {
namespace {

constexpr size_t kFailuresShown = 20;

struct Row {
  int cases = 0;
  int failed = 0;
  double worst_error = 0;
  bool known = false;
};

Check RunCase(const Function& function, const Case& one) {
  Check check;
  try {  // a case of another shape than its function's must not end the run
    function(one, check);
  } catch (const std::exception& error) {
    check.That(false, error.what());
  }
  return check;
}

void Print(const std::map<std::string, Row>& rows, const std::vector<std::string>& failures) {
  std::printf("%-40s %7s %7s %12s\n", "function", "cases", "failed", "worst error");
  for (const auto& [function, row] : rows) {
    if (row.known) {
      std::printf("%-40s %7d %7d %12.3g\n", function.c_str(), row.cases, row.failed, row.worst_error);
    } else {
      std::printf("%-40s %7d  unknown\n", function.c_str(), row.cases);
    }
  }
  for (size_t i = 0; i < std::min(kFailuresShown, failures.size()); ++i)
    std::printf("FAILED %s\n", failures[i].c_str());
  if (failures.size() > kFailuresShown) std::printf("... and %zu more\n", failures.size() - kFailuresShown);
}

int Main(const std::string& dir) {
  RegisterFunctions();
  const absl::StatusOr<std::vector<Case>> cases = LoadFolder(dir);
  if (!cases.ok()) {
    std::fprintf(stderr, "golden: %s\n", std::string(cases.status().message()).c_str());
    return 2;
  }
  std::map<std::string, Row> rows;
  std::vector<std::string> failures;
  for (const Case& one : *cases) {
    Row& row = rows[one.function];
    ++row.cases;
    const auto function = Functions().find(one.function);
    row.known = function != Functions().end();
    if (!row.known) continue;
    const Check check = RunCase(function->second, one);
    row.worst_error = std::max(row.worst_error, check.worst_error());
    if (check.ok()) continue;
    ++row.failed;
    failures.push_back(one.name + ": " + check.failure());
  }
  Print(rows, failures);
  const auto unknown = std::count_if(rows.begin(), rows.end(), [](const auto& row) { return !row.second.known; });
  std::printf("%zu cases, %zu failed, %ld functions unknown\n", cases->size(), failures.size(),
              static_cast<long>(unknown));
  return failures.empty() && unknown == 0 ? 0 : 1;
}

}  // namespace
}  // namespace troupe::golden

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_runner DIR\nexample: golden_runner tests/golden\n");
    return 2;
  }
  return troupe::golden::Main(argv[1]);
}
