// SPDX-License-Identifier: Apache-2.0
// Validation: the policy of one step on the held-out prompts, sampled and greedy. Training and new prompts wait
// meanwhile.
#include <algorithm>
#include <cmath>

#include "actors/pipeline/pipeline_sources.h"
#include "actors/pipeline/pipeline_state.h"

namespace troupe {

bool PipelineState::ValidationDue() const {
  int64_t step = durable_.step();
  if (options_.val_prompts.empty() || stopping_ || durable_.validated_step() >= step) return false;
  if (step == 0) return options_.val_before_train;
  if (options_.test_freq <= 0) return false;
  return step % options_.test_freq == 0 || step >= options_.total_steps;
}

void PipelineState::AdvanceValidation(Monotonic now) {
  if (validation_ && stopping_) validation_.reset();
  if (!validation_ && ValidationDue()) StartValidation(now);
  if (!validation_) return;
  // Tasks go to the rollouts that hold this very step, a share to each.
  std::vector<WorkerName> ready;
  for (const auto& [name, rollout] : workers_) {
    bool current = rollout.weights && rollout.weights->version().step() == validation_->step;
    bool busy = OpenCalls(name, {CallKind::kUpdateWeights, CallKind::kValidate}) > 0;
    if (name.role == "rollout" && Usable(name, now) && current && !busy) ready.push_back(name);
  }
  std::map<std::string, v1::PromptTask> waiting = validation_->tasks;
  for (const auto& [id, call] : calls_) {
    for (const std::string& group : call.names) {
      if (call.kind == CallKind::kValidate) waiting.erase(group);
    }
  }
  if (!ready.empty() && !waiting.empty()) {
    std::vector<v1::GenerateRequest> requests(ready.size());
    std::vector<Call> details(ready.size());
    size_t i = 0;
    for (const auto& [group, task] : waiting) {
      size_t to = i++ % ready.size();
      if (details[to].names.size() == kGroupsPerCallMax) break;
      *requests[to].add_prompts() = task;
      details[to].names.push_back(group);
    }
    for (size_t r = 0; r < ready.size(); ++r) {
      requests[r].mutable_version()->set_step(validation_->step);
      if (requests[r].prompts_size() > 0) Send(CallKind::kValidate, ready[r], requests[r], now, std::move(details[r]));
    }
  }
  // What was generated is scored by whichever reward worker is free.
  std::vector<v1::RowMeta> rows;
  std::set<std::string> usable = UsableShards();
  for (const auto& [row_id, row] : validation_->rows) {
    if (usable.contains(row.shard()) && rows.size() < kRowsPerCallMax) rows.push_back(row);
  }
  if (!rows.empty() && !Calling(CallKind::kScoreValidation)) {
    for (const auto& [name, worker] : workers_) {
      if (name.role != "reward" || !Usable(name, now) || OpenCalls(name, {CallKind::kScore}) > 0) continue;
      v1::ScoreRequest request;
      AddSources(rows, request.mutable_sources());
      Send(CallKind::kScoreValidation, name, std::move(request), now);
      break;
    }
  }
  if (validation_->tasks.empty() && validation_->rows.empty()) FinishValidation(now);
}

void PipelineState::StartValidation(Monotonic now) {
  validation_.emplace();
  validation_->step = durable_.step();
  validation_->started = now;
  for (uint64_t prompt : options_.val_prompts) {
    v1::PromptTask task;
    task.set_prompt_id(prompt);
    task.set_validation(true);
    // A group of its own per step, but random numbers that depend on the prompt and sample alone.
    std::string group = "val-" + std::to_string(validation_->step) + "-" + std::to_string(prompt);
    if (options_.val_samples > 0) {
      task.set_group_id(group);
      task.set_n(static_cast<int32_t>(options_.val_samples));
      validation_->tasks[task.group_id()] = task;
    }
    task.set_group_id(group + "-greedy");
    task.set_n(1);
    task.set_greedy(true);
    validation_->tasks[task.group_id()] = task;
  }
}

void PipelineState::OnValidationRows(const Call& call, const v1::GenerateResponse& response) {
  if (!validation_) return;
  for (const std::string& group : call.names) {
    auto task = validation_->tasks.find(group);
    if (task == validation_->tasks.end()) continue;
    validation_->not_generated_rows += task->second.n();
    validation_->tasks.erase(task);
  }
  validation_->not_generated_rows -= response.rows_size();
  for (const v1::RowMeta& row : response.rows()) {
    validation_->rows[row.row_id()] = row;
    validation_->done_rows.push_back(row.row_id());
  }
}

void PipelineState::OnValidationScores(const Call&, const v1::ScoreResponse& response) {
  if (!validation_) return;
  for (const v1::RowScore& score : response.scores()) {
    auto row = validation_->rows.find(score.row_id());
    if (row == validation_->rows.end()) continue;
    if (score.fault() == "program") {
      ++validation_->dropped_rows;
    } else {
      validation_->scores[row->second.group_id()].push_back({score.score(), score.pred()});
    }
    if (!score.fault().empty()) out_->actions.push_back(RewardFaultNote(score));
    validation_->rows.erase(row);
  }
}

void PipelineState::FinishValidation(Monotonic now) {
  std::map<std::string, double> metrics = ValidationMetrics(validation_->scores, options_.val_samples);
  metrics["val-aux/val/rows/dropped"] = static_cast<double>(validation_->dropped_rows);
  metrics["val-aux/val/rows/not_generated"] = static_cast<double>(validation_->not_generated_rows);
  metrics["timing_s/testing"] = absl::ToDoubleSeconds(now - validation_->started);
  to_release_.insert(to_release_.end(), validation_->done_rows.begin(), validation_->done_rows.end());
  v1::PipelineRecord record;
  record.mutable_validation_done()->set_step(validation_->step);
  record.mutable_validation_done()->mutable_metrics()->insert(metrics.begin(), metrics.end());
  Record(std::move(record));
  validation_.reset();
  metrics_held_ = true;
  WriteHeldMetrics();
}

}  // namespace troupe
