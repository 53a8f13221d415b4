// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/validation_scores.h"

#include <algorithm>
#include <string_view>

namespace troupe {
namespace {

struct Mean {
  double sum = 0;
  int64_t count = 0;
  void Add(double value) {
    sum += value;
    ++count;
  }
};

// Null when no sample gave an answer.
const ValidationSample* MostSaid(const std::vector<ValidationSample>& samples) {
  std::map<std::string_view, int64_t> said;
  for (const ValidationSample& sample : samples) ++said[sample.pred];
  const ValidationSample* most = nullptr;
  for (const ValidationSample& sample : samples) {
    if (!sample.pred.empty() && (most == nullptr || said[sample.pred] > said[most->pred])) most = &sample;
  }
  return most;
}

}  // namespace

std::map<std::string, double> ValidationMetrics(const std::map<std::string, std::vector<ValidationSample>>& groups,
                                                int64_t samples) {
  Mean mean, best, majority, greedy;
  for (const auto& [group, scored] : groups) {
    if (group.ends_with("-greedy")) {
      greedy.Add(scored.front().score);
      continue;
    }
    Mean of_group;
    double highest = scored.front().score;
    for (const ValidationSample& sample : scored) {
      of_group.Add(sample.score);
      highest = std::max(highest, sample.score);
    }
    mean.Add(of_group.sum / static_cast<double>(of_group.count));
    best.Add(highest);
    if (const ValidationSample* most = MostSaid(scored)) majority.Add(most->score);
  }
  std::map<std::string, double> metrics;
  auto write = [&](const std::string& name, const Mean& of) {
    if (of.count > 0) metrics["val-core/val/" + name] = of.sum / static_cast<double>(of.count);
  };
  const std::string n = "@" + std::to_string(samples);
  write("reward/mean" + n, mean);
  write("reward/best" + n, best);
  if (majority.count == mean.count) write("reward/maj" + n, majority);
  write("reward_greedy/mean@1", greedy);
  return metrics;
}

}  // namespace troupe
