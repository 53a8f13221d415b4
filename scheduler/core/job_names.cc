// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/job_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/nearest.h"

namespace troupe::scheduler {
std::string MakeJobId(const std::string& name, uint64_t entropy, const std::function<bool(const std::string&)>& taken) {
  for (;; entropy = entropy * 6364136223846793005u + 1442695040888963407u) {
    std::string id = absl::StrFormat("%s-%06x", name, entropy >> 40);
    if (!taken(id)) return id;
  }
}

std::string Count(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
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
