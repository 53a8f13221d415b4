// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/batch_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {
namespace {

// Mean, largest and smallest of a series.
class Summary {
 public:
  void Add(double value) {
    ++count_;
    sum_ += value;
    max_ = std::max(max_, value);
    min_ = std::min(min_, value);
  }
  void Write(const std::string& name, std::map<std::string, double>& values, bool with_min = true) const {
    if (count_ == 0) return;
    values[name + "/mean"] = sum_ / static_cast<double>(count_);
    values[name + "/max"] = max_;
    if (with_min) values[name + "/min"] = min_;
  }

 private:
  int64_t count_ = 0;
  double sum_ = 0;
  double max_ = -std::numeric_limits<double>::infinity();
  double min_ = std::numeric_limits<double>::infinity();
};

int64_t OldestVersion(const TrainSample& sample, int64_t present) {
  int64_t oldest = present;
  for (const TrainVersionSpan& span : sample.version_spans) {
    if (span.end > span.begin) oldest = std::min(oldest, span.version);
  }
  return oldest;
}

bool Counts(const TrainSample& sample, int64_t token) {
  return sample.response_mask.empty() || sample.response_mask[static_cast<size_t>(token)] != 0;
}

double ShareOfEqualGroups(const BatchRows& batch) {
  int64_t equal = 0;
  for (const BatchRows::Group& group : batch.groups) {
    bool same = true;
    for (size_t row = group.first_row; row < group.last_row; ++row) {
      same = same && batch.rows[row].sample->reward == batch.rows[group.first_row].sample->reward;
    }
    equal += same ? 1 : 0;
  }
  return batch.groups.empty() ? 0 : static_cast<double>(equal) / static_cast<double>(batch.groups.size());
}

// Sums over tokens of what the engine's and the trainer's log-probabilities differ by.
struct Comparison {
  double count = 0, diff = 0, diff_max = 0;
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;  // probabilities, for the correlation
  double kl = 0, k3 = 0;
  double weight = 0, weight_square = 0, weight_max = 0;

  void Add(double rollout, double old, double threshold) {
    const double p = std::exp(rollout);
    const double q = std::exp(old);
    const double log_ratio = std::clamp(old - rollout, -20.0, 20.0);
    const double w = std::min(std::exp(log_ratio), threshold);
    count += 1;
    diff += std::abs(p - q);
    diff_max = std::max(diff_max, std::abs(p - q));
    x += p;
    y += q;
    xx += p * p;
    yy += q * q;
    xy += p * q;
    kl -= log_ratio;
    k3 += std::exp(log_ratio) - log_ratio - 1;
    weight += w;
    weight_square += w * w;
    weight_max = std::max(weight_max, w);
  }

  double Correlation() const {
    const double spread = (count * xx - x * x) * (count * yy - y * y);
    return spread > 0 ? (count * xy - x * y) / std::sqrt(spread) : 1;
  }
};

}  // namespace

void AddBatchMetrics(const BatchRows& batch, const BatchAdvantages& advantages, int64_t step,
                     std::map<std::string, double>& values) {
  Summary score, reward, advantage, length, prompt, staleness;
  int64_t truncated = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRows::Row& row = batch.rows[i];
    score.Add(row.sample->reward);
    reward.Add(advantages.rewards[i]);
    length.Add(static_cast<double>(row.length));
    staleness.Add(static_cast<double>(step - OldestVersion(*row.sample, step)));
    truncated += row.sample->truncated ? 1 : 0;
    for (int64_t t = 0; t < row.length; ++t) {
      if (Counts(*row.sample, t)) advantage.Add(advantages.advantages[static_cast<size_t>(row.begin + t)]);
    }
    tokens += row.length + static_cast<int64_t>(batch.groups[row.group].source->prompt_ids.size());
  }
  for (const BatchRows::Group& group : batch.groups) prompt.Add(static_cast<double>(group.source->prompt_ids.size()));
  score.Write("critic/score", values);
  reward.Write("critic/rewards", values);
  advantage.Write("critic/advantages", values);
  advantage.Write("critic/returns", values);
  length.Write("response_length", values);
  prompt.Write("prompt_length", values);
  staleness.Write("staleness", values, /*with_min=*/false);
  const double rows = static_cast<double>(batch.rows.size());
  const double all_rows = rows + static_cast<double>(batch.empty_rows);
  if (rows > 0) values["response_length/clip_ratio"] = static_cast<double>(truncated) / rows;
  values["response/aborted_ratio"] = all_rows > 0 ? static_cast<double>(batch.empty_rows) / all_rows : 0;
  values["frac_reward_zero_std"] = ShareOfEqualGroups(batch);
  values["perf/total_num_tokens"] = static_cast<double>(tokens);
}

void AddRolloutMetrics(const BatchRows& batch, absl::Span<const float> old_logprobs, absl::Span<const uint8_t> scored,
                       double threshold, std::map<std::string, double>& values) {
  Comparison sums;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRows::Row& row = batch.rows[i];
    if (scored[i] == 0 || row.sample->rollout_logprobs.empty()) continue;
    for (int64_t t = 0; t < row.length; ++t) {
      if (!Counts(*row.sample, t)) continue;
      sums.Add(row.sample->rollout_logprobs[static_cast<size_t>(t)], old_logprobs[static_cast<size_t>(row.begin + t)],
               threshold);
    }
  }
  if (sums.count == 0) return;
  values["training/rollout_probs_diff_mean"] = sums.diff / sums.count;
  values["training/rollout_probs_diff_max"] = sums.diff_max;
  values["training/rollout_actor_probs_pearson_corr"] = sums.Correlation();
  values["rollout_corr/kl"] = sums.kl / sums.count;
  values["rollout_corr/k3_kl"] = sums.k3 / sums.count;
  values["rollout_corr/rollout_is_mean"] = sums.weight / sums.count;
  values["rollout_corr/rollout_is_max"] = sums.weight_max;
  values["rollout_corr/rollout_is_eff_sample_size"] =
      sums.weight_square > 0 ? sums.weight * sums.weight / (sums.count * sums.weight_square) : 0;
}

}  // namespace troupe
