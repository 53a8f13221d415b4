// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/job_names.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::scheduler {
namespace {

// Levenshtein distance.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string MakeJobId(const std::string& name, uint64_t entropy, const std::function<bool(const std::string&)>& taken) {
  for (;; entropy = entropy * 6364136223846793005u + 1442695040888963407u) {
    std::string id = absl::StrFormat("%s-%06x", name, entropy >> 40);
    if (!taken(id)) return id;
  }
}

absl::Status NoSuchJob(const std::string& id, const std::vector<std::string>& known) {
  if (known.empty()) return absl::NotFoundError(absl::StrCat("no job '", id, "': there is no job at all"));
  auto nearest = std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    // A name without its suffix is as good as near.
    bool a_begins = !id.empty() && a.rfind(id, 0) == 0, b_begins = !id.empty() && b.rfind(id, 0) == 0;
    if (a_begins != b_begins) return a_begins;
    return EditDistance(id, a) < EditDistance(id, b);
  });
  return absl::NotFoundError(absl::StrCat("no job '", id, "'; the nearest is '", *nearest, "'"));
}

}  // namespace troupe::scheduler
