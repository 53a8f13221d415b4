// SPDX-License-Identifier: Apache-2.0
// Checkpoints, and how the pipeline ends.
#include <algorithm>

#include "actors/pipeline/pipeline_state.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

// Attempts to write the last checkpoint of a run, 1, 2, ... s apart, before the job fails for it.
constexpr int kLastCheckpointAttemptsMax = 5;

}  // namespace

bool PipelineState::CheckpointDue() const {
  int64_t step = durable_.step();
  if (step == 0 || step <= durable_.checkpoint_step()) return false;
  if (stopping_ || step >= options_.total_steps) return true;
  return options_.save_freq > 0 && step % options_.save_freq == 0 && step != checkpoint_given_up_step_;
}

// Called when the trainer is idle at the newest step. A validation that is due goes first, so that a resumed run does
// not repeat it.
bool PipelineState::AdvanceCheckpoint(Monotonic now) {
  bool due = CheckpointDue() && (stopping_ || !(validation_ || ValidationDue()));
  if (!checkpoint_ && due && checkpoint_not_before_ <= now) StartCheckpoint(now);
  if (!checkpoint_) return due;  // waits for a shard, or after a failure
  if (checkpoint_->calls.empty() && !checkpoint_->committing) {
    checkpoint_->committing = true;
    out_->actions.push_back(CheckpointCommit{checkpoint_->step, checkpoint_->snapshot});
  }
  return true;
}

// One cut: the trainer's state and the queue at the same step. The rows of the queue are written by their shards.
void PipelineState::StartCheckpoint(Monotonic now) {
  std::map<std::string, v1::SyncRowsRequest> of_shard;
  std::set<std::string> usable = UsableShards();
  for (const v1::RowMeta& row : durable_.index().QueuedRows()) {
    if (!usable.contains(row.shard())) return;  // waits for the shard
    of_shard[row.shard()].add_row_ids(row.row_id());
  }
  checkpoint_.emplace();
  checkpoint_->step = durable_.step();
  checkpoint_->snapshot = durable_.Snapshot();
  checkpoint_->started = now;
  out_->actions.push_back(CheckpointBegin{checkpoint_->step});
  std::string directory = options_.CheckpointDir(checkpoint_->step) + ".tmp";
  v1::SaveCheckpointRequest save;
  save.set_directory(directory);
  checkpoint_->calls.insert(Send(CallKind::kSave, {"actor", 0}, std::move(save), now));
  for (auto& [shard, request] : of_shard) {
    request.set_directory(directory);
    WorkerName name{"rollout", std::stoi(shard.substr(shard.find('/') + 1))};
    checkpoint_->calls.insert(Send(CallKind::kSyncRows, name, std::move(request), now));
  }
}

void PipelineState::OnCheckpointWritten(const CheckpointWritten& event, Monotonic now) {
  if (!checkpoint_ || checkpoint_->step != event.step) return;
  if (!event.status.ok()) return AbandonCheckpoint(event.status, now);
  saving_ += now - checkpoint_->started;
  checkpoint_.reset();
  checkpoint_failures_ = 0;
  v1::PipelineRecord record;
  record.mutable_checkpoint_committed()->set_step(event.step);
  Record(std::move(record));
  out_->actions.push_back(CheckpointPrune{event.step});
  out_->actions.push_back(Note{"checkpoint", "step " + std::to_string(event.step) + " is saved", /*routine=*/true});
}

// The old checkpoint stays what it was. One that failed because a worker died or cannot be reached is tried again, and
// so is the last one of a run, which must succeed; any other is given up and the job goes on.
void PipelineState::AbandonCheckpoint(const absl::Status& why, Monotonic now) {
  saving_ += now - checkpoint_->started;
  int64_t step = checkpoint_->step;
  checkpoint_.reset();
  out_->actions.push_back(CheckpointAbandon{step});
  std::string text = "checkpoint of step " + std::to_string(step) + " was not written: " + StatusText(why);
  out_->actions.push_back(Note{"checkpoint_failed", text + "; the one before it is intact"});
  bool away = absl::IsUnavailable(why);
  bool last = stopping_ || step >= options_.total_steps;
  int attempts = ++checkpoint_failures_;
  if ((away || last) && attempts < (away ? kCallAttemptsMax : kLastCheckpointAttemptsMax)) {
    checkpoint_not_before_ = now + (away ? CallBackoff(attempts) : absl::Seconds(attempts));
    return;
  }
  checkpoint_failures_ = 0;
  if (last) return Fail(text);
  checkpoint_given_up_step_ = step;
}

// Not while rows are being released: the older checkpoint's queue may have the same rows, and they are restored then.
void PipelineState::AdvanceStepBack() {
  if (finished_ || damage_.empty() || stepping_back_ || Calling(CallKind::kRelease)) return;
  stepping_back_ = true;
  out_->actions.push_back(StepBack{durable_.checkpoint_step()});
}

// What a resume of the job does, without ending it: the attempt grows, what was trained after the older checkpoint is
// trained again. Rows that are in their shards are not made again; their tokens know the weights that made them.
void PipelineState::OnSteppedBack(const SteppedBack& event, Monotonic now) {
  if (!stepping_back_) return;
  std::string damage = std::exchange(damage_, {});
  stepping_back_ = false;
  if (!event.status.ok()) return Fail(damage + "; no other can be used: " + StatusText(event.status));
  out_->actions.push_back(
      Note{"checkpoint_damaged", "warning: " + damage + "; step " + std::to_string(durable_.step()) +
                                     " is given up, goes on from step " + std::to_string(event.snapshot.step())});
  while (!calls_.empty()) TakeCall(calls_.begin()->first, now);  // answers to them are of a course that is over
  v1::PipelineRecord record;
  *record.mutable_snapshot() = event.snapshot;
  record.mutable_snapshot()->set_attempt(durable_.attempt());  // the trainer's new one must be larger than any before
  record.mutable_snapshot()->set_trainer_incarnation(0);
  Record(std::move(record));
  out_->actions.push_back(CheckpointGiveUp{durable_.step()});
  for (auto& [name, worker] : workers_) worker = Worker{.up = worker.up, .incarnation = worker.incarnation};
  published_.reset();
  validation_.reset();
  deaths_.clear();
  to_release_.clear();
  checkpoint_given_up_step_ = -1;
  metrics_held_ = false;
}

void PipelineState::AdvanceFinish() {
  if (finished_ || checkpoint_ || !damage_.empty()) return;
  int64_t step = durable_.step();
  bool saved = step == 0 || durable_.checkpoint_step() == step;
  if (!saved) return;
  if (step >= options_.total_steps && !validation_ && !ValidationDue()) {
    Finish({.succeeded = true, .reason = "trained " + std::to_string(step) + " steps"});
  } else if (stopping_ && durable_.index().leased_steps() == step) {
    Finish({.succeeded = true, .interrupted = true, .reason = "stopped at step " + std::to_string(step) + " as asked"});
  }
}

}  // namespace troupe
