// SPDX-License-Identifier: Apache-2.0
// What a step reports (names: verl's), and what people see of the roles.
#include <algorithm>
#include <limits>

#include "actors/pipeline/pipeline_state.h"

namespace troupe {
namespace {

// Names come from the programs of users.
constexpr size_t kRewardMetricNamesMax = 256;

class Summary {
 public:
  void Add(double value) {
    sum_ += value;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    ++count_;
  }
  double mean() const { return sum_ / static_cast<double>(count_); }
  void Write(const std::string& name, std::map<std::string, double>& metrics) const {
    if (count_ == 0) return;
    metrics[name + "/mean"] = mean();
    metrics[name + "/max"] = max_;
    metrics[name + "/min"] = min_;
  }

 private:
  double sum_ = 0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  int64_t count_ = 0;
};

// What the reward functions said of rows.
class RewardSummary {
 public:
  void Add(const v1::IndexedRow& row) {
    scores_.Add(row.reward());
    for (const auto& [name, value] : row.reward_metrics()) {
      if (told_.size() < kRewardMetricNamesMax || told_.contains(name)) told_[name].Add(value);
    }
  }
  // critic/rewards is the trainer's where it knows better (a KL is taken off).
  void Write(std::map<std::string, double>& metrics) const {
    scores_.Write("critic/score", metrics);
    if (!metrics.contains("critic/rewards/mean")) scores_.Write("critic/rewards", metrics);
    for (const auto& [name, summary] : told_) metrics["reward/" + name] = summary.mean();
  }

 private:
  Summary scores_;
  std::map<std::string, Summary> told_;  // by metric
};

}  // namespace

std::map<std::string, double> PipelineState::StepMetrics(int64_t step, const v1::TrainStepResponse& response,
                                                         absl::Duration update, Monotonic now) {
  std::map<std::string, double> metrics(response.metrics().begin(), response.metrics().end());
  const v1::IndexedBatch& batch = *durable_.index().BatchOf(step);
  RewardSummary rewards;
  Summary prompts, responses;
  double tokens = 0, clipped = 0, aborted = 0, rows = 0, equal_groups = 0, staleness_sum = 0, staleness_max = 0;
  uint64_t first_group = std::numeric_limits<uint64_t>::max(), last_group = 0;
  for (const v1::IndexedGroup& group : batch.groups()) {
    first_group = std::min<uint64_t>(first_group, group.sequence());
    last_group = std::max<uint64_t>(last_group, group.sequence());
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const v1::IndexedRow& row : group.rows()) {
      const v1::RowMeta& meta = row.meta();
      rewards.Add(row);
      prompts.Add(meta.prompt_length());
      responses.Add(meta.response_length());
      tokens += meta.prompt_length() + meta.response_length();
      clipped += meta.finish_reason() == "length" ? 1 : 0;
      aborted += meta.finish_reason() == "abort" ? 1 : 0;
      rows += 1;
      low = std::min(low, row.reward());
      high = std::max(high, row.reward());
      for (const v1::VersionSpan& span : meta.spans()) {
        double staleness = static_cast<double>(step - 1 - span.version().step());
        staleness_max = std::max(staleness_max, staleness);
        staleness_sum += staleness * (span.end() - span.begin());
      }
    }
    equal_groups += low == high ? 1 : 0;
  }
  rewards.Write(metrics);
  prompts.Write("prompt_length", metrics);
  responses.Write("response_length", metrics);
  double response_tokens = metrics["response_length/mean"] * rows;
  metrics["response_length/clip_ratio"] = clipped / rows;
  metrics["response/aborted_ratio"] = aborted / rows;
  metrics["frac_reward_zero_std"] = equal_groups / batch.groups_size();
  metrics["staleness/mean"] = response_tokens > 0 ? staleness_sum / response_tokens : 0;
  metrics["staleness/max"] = staleness_max;
  metrics["training/global_step"] = static_cast<double>(step);
  // Which groups of the prompt order were trained: tells whether a run with deaths trained what another one did.
  metrics["training/first_group"] = static_cast<double>(first_group);
  metrics["training/last_group"] = static_cast<double>(last_group);
  metrics["training/rows"] = rows;
  metrics["training/epoch"] =
      static_cast<double>(batch.groups(batch.groups_size() - 1).sequence() / durable_.order().prompts());
  metrics["rows/dropped"] =
      static_cast<double>(durable_.counters().rows_dropped_program() + durable_.counters().rows_dropped_small_group() +
                          durable_.counters().rows_dropped_not_finite());
  metrics["groups/dropped_stale"] = static_cast<double>(durable_.counters().groups_dropped_stale());
  metrics["groups/dropped_quarantined"] = static_cast<double>(durable_.counters().groups_dropped_quarantined());
  metrics["groups/dropped_not_generated"] = static_cast<double>(durable_.counters().groups_dropped_not_generated());
  auto seconds = [&](BusyClock& clock) { return absl::ToDoubleSeconds(clock.Take(now)); };
  metrics["timing_s/gen"] = seconds(generating_);
  metrics["timing_s/reward"] = seconds(scoring_);
  if (options_.reference_replicas > 0) metrics["timing_s/ref"] = seconds(referring_);
  metrics["timing_s/update_weights"] = seconds(updating_weights_);
  metrics["timing_s/update_actor"] = absl::ToDoubleSeconds(update);
  if (saving_ > absl::ZeroDuration()) metrics["timing_s/save_checkpoint"] = absl::ToDoubleSeconds(saving_);
  double step_seconds = absl::ToDoubleSeconds(now - step_began_.value_or(now));
  metrics["timing_s/step"] = step_seconds;
  metrics["perf/time_per_step"] = step_seconds;
  metrics["perf/total_num_tokens"] = tokens;
  metrics["perf/throughput"] = step_seconds > 0 ? tokens / step_seconds : 0;
  saving_ = absl::ZeroDuration();
  step_began_ = now;
  return metrics;
}

void PipelineState::WriteHeldMetrics() {
  if (!metrics_held_) return;
  metrics_held_ = false;
  out_->actions.push_back(WriteMetrics{std::max<int64_t>(0, durable_.attempt()), durable_.step(), durable_.metrics()});
}

v1::JobProgress PipelineState::Progress() const {
  v1::JobProgress progress;
  progress.set_step(durable_.step());
  progress.set_total_steps(options_.total_steps);
  bool training = Calling(CallKind::kTrain);
  progress.set_phase(checkpoint_        ? "checkpoint"
                     : validation_      ? "evaluate"
                     : training         ? "train"
                     : workers_.empty() ? "start"
                                        : "generate");
  for (const auto& [name, worker] : workers_) {
    v1::RoleActivity* role = progress.add_roles();
    role->set_role(name.role);
    role->set_replica(name.replica);
    role->set_doing(worker.up ? "idle" : "away");
    if (!worker.up) role->set_waits_for("the scheduler to start it again");
    for (const auto& [id, call] : calls_) {
      if (call.worker != name) continue;
      switch (call.kind) {
        case CallKind::kGenerate:
          role->set_doing("generating " +
                          std::to_string(static_cast<int64_t>(call.sequences.size()) * options_.samples) + " samples");
          break;
        case CallKind::kValidate:
          role->set_doing("generating validation samples");
          break;
        case CallKind::kUpdateWeights:
          role->set_doing("receiving weights");
          break;
        case CallKind::kScore:
        case CallKind::kScoreValidation:
          role->set_doing("scoring");
          break;
        case CallKind::kReference:
          role->set_doing("computing reference log-probabilities");
          break;
        case CallKind::kLoad:
          role->set_doing("loading");
          break;
        case CallKind::kTrain:
          role->set_doing((call.step <= durable_.step() ? "replaying step " : "training step ") +
                          std::to_string(call.step));
          break;
        case CallKind::kPublish:
          role->set_doing("publishing weights");
          break;
        case CallKind::kSave:
          role->set_doing("saving a checkpoint");
          break;
        default:
          break;
      }
    }
    if (role->doing() != "idle") continue;
    if (name.role == "actor") role->set_waits_for("rows");
    if (name.role == "rollout") role->set_waits_for(training ? "weights of the next step" : "credits");
    if (name.role == "reward" || name.role == "reference") role->set_waits_for("rows");
  }
  return progress;
}

}  // namespace troupe
