// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/micro_batches.h"

#include <numeric>

#include "absl/strings/str_cat.h"

namespace troupe {
namespace {

// Adds responses of one group from `begin` on while they fit; returns how far it came.
size_t Fill(const GroupTokens& group, size_t begin, int64_t& left) {
  if (group.prompt > left) return begin;
  left -= group.prompt;
  size_t end = begin;
  while (end < group.responses.size() && group.responses[end] <= left) left -= group.responses[end++];
  return end;
}

}  // namespace

absl::StatusOr<std::vector<MicroBatch>> CutByTokens(const std::vector<GroupTokens>& groups, int64_t tokens_max) {
  std::vector<MicroBatch> batches;
  int64_t left = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupTokens& group = groups[g];
    const int64_t whole = std::accumulate(group.responses.begin(), group.responses.end(), group.prompt);
    if (batches.empty() || whole > left) {  // a fresh one, so that the group is cut only if it must be
      batches.emplace_back();
      left = tokens_max;
    }
    for (size_t begin = 0; begin < group.responses.size();) {
      const size_t end = Fill(group, begin, left);
      if (end > begin) batches.back().push_back({g, begin, end});
      if (end == begin && batches.back().empty()) {
        return absl::InvalidArgumentError(absl::StrCat("response ", begin, " of group ", g, " has ",
                                                       group.prompt + group.responses[begin],
                                                       " tokens with its prompt; a micro-batch holds ", tokens_max));
      }
      if (end < group.responses.size()) {
        batches.emplace_back();
        left = tokens_max;
      }
      begin = end;
    }
  }
  return batches;
}

}  // namespace troupe
