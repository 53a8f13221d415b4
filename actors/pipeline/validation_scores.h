// SPDX-License-Identifier: Apache-2.0
// What a validation says of the held-out prompts: val-core/{source}/{variable}/{mean,best,maj}@N, as verl names them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe {

struct ValidationSample {
  double score = 0;
  std::string pred;  // What the reward function took for its answer; "": it did not say.
};

// `groups`: the scored samples of each prompt by group_id, in their order, at least one each; the one greedy sample of
// a prompt in a group of its own that ends in "-greedy". Over prompts, the mean of
//   mean@N  the mean of the N samples' scores,
//   best@N  the best of them,
//   maj@N   the score of the answer that most of them gave (of equals the one given first); missing where the reward
//           tells no answers,
// and reward_greedy/mean@1. Empty groups of a kind give no entry.
std::map<std::string, double> ValidationMetrics(const std::map<std::string, std::vector<ValidationSample>>& groups,
                                                int64_t samples);

}  // namespace troupe
