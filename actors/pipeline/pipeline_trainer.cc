// SPDX-License-Identifier: Apache-2.0
// The trainer: loading, replaying what a dead one had trained, training, publishing.
#include "actors/pipeline/pipeline_sources.h"
#include "actors/pipeline/pipeline_state.h"

namespace troupe {

void PipelineState::AdvanceTrainer(Monotonic now) {
  WorkerName name{"actor", 0};
  if (!Usable(name, now) || !damage_.empty()) return;
  Worker& trainer = workers_.at(name);
  if (OpenCalls(name, {CallKind::kTrainerState, CallKind::kLoad, CallKind::kTrain, CallKind::kPublish,
                       CallKind::kSave}) > 0) {
    return;
  }
  if (!trainer.loaded) {
    bool committing = checkpoint_ && checkpoint_->committing;  // it is known soon what is to be loaded
    if (!committing) LoadTrainer(trainer, now);
    return;
  }
  if (trainer.version.step() < durable_.step()) return TrainBatch(trainer.version.step() + 1, trainer, now);  // replay
  bool base_model =
      trainer.version.step() == 0 && trainer.version.attempt() == 0;  // every rollout has it from its file
  if (!published_ && !base_model) {
    Send(CallKind::kPublish, name, v1::PublishRequest(), now);
    return;
  }
  if (durable_.index().leased_steps() > durable_.step()) return TrainBatch(durable_.step() + 1, trainer, now);
  if (AdvanceCheckpoint(now) || stopping_ || validation_ || ValidationDue()) return;
  if (LeaseNextBatch()) TrainBatch(durable_.step() + 1, trainer, now);
}

// A trainer that we know may have kept its state over our own restart; any other begins a new attempt at the newest
// checkpoint.
void PipelineState::LoadTrainer(Worker& trainer, Monotonic now) {
  WorkerName name{"actor", 0};
  if (durable_.trainer_incarnation() != trainer.incarnation) {
    v1::PipelineRecord record;
    record.mutable_attempt_started()->set_attempt(durable_.attempt() + 1);
    record.mutable_attempt_started()->set_from_step(durable_.checkpoint_step());
    record.mutable_attempt_started()->set_trainer_incarnation(trainer.incarnation);
    Record(std::move(record));
    trainer.must_load = true;
    if (durable_.attempt() > 0) {
      out_->actions.push_back(
          Note{"attempt_started", "attempt " + std::to_string(durable_.attempt()) + " begins at step " +
                                      std::to_string(durable_.checkpoint_step()) + " and replays up to step " +
                                      std::to_string(durable_.step())});
    }
  }
  if (!trainer.must_load) {
    Send(CallKind::kTrainerState, name, v1::GetTrainerStateRequest(), now);
    return;
  }
  v1::LoadCheckpointRequest request;
  if (!durable_.resumed_from().empty()) {
    request.set_directory(durable_.resumed_from());
  } else if (durable_.checkpoint_step() > 0) {
    request.set_directory(options_.CheckpointDir(durable_.checkpoint_step()));
  }
  request.set_attempt(durable_.attempt());
  Send(CallKind::kLoad, name, std::move(request), now);
}

void PipelineState::OnTrainerState(const Call& call, Worker& trainer, const v1::TrainerState& state) {
  int64_t step = state.version().step();
  bool ours = state.loaded() && state.version().attempt() == durable_.attempt() && step >= durable_.checkpoint_step() &&
              step <= durable_.index().leased_steps();
  if (call.kind == CallKind::kLoad && !ours) {
    return Fail("the trainer loaded step " + std::to_string(step) + " where step " +
                std::to_string(durable_.checkpoint_step()) + " was asked for");
  }
  trainer.loaded = ours;
  trainer.must_load = !ours;
  trainer.version = state.version();
  // Ahead of the log by the step whose answer was lost: asking for that step again gives the answer.
  if (step > durable_.step()) trainer.version.set_step(durable_.step());
}

bool PipelineState::LeaseNextBatch() {
  if (durable_.step() >= options_.total_steps) return false;
  std::vector<uint64_t> stale;
  std::optional<std::vector<uint64_t>> batch =
      durable_.index().NextBatch(durable_.step(), options_.train_stale, &stale);
  for (uint64_t sequence : stale) {
    v1::PipelineRecord record;
    record.mutable_group_dropped()->set_sequence(sequence);
    record.mutable_group_dropped()->set_reason("stale");
    Record(std::move(record));
  }
  if (!batch) return false;
  v1::PipelineRecord record;
  record.mutable_batch_leased()->set_step(durable_.step() + 1);
  record.mutable_batch_leased()->mutable_sequences()->Add(batch->begin(), batch->end());
  Record(std::move(record));
  return true;
}

// The recorded batch of `step`, in its recorded order: the same call whether it is trained for the first time or
// replayed.
void PipelineState::TrainBatch(int64_t step, Worker& trainer, Monotonic now) {
  const v1::IndexedBatch* batch = durable_.index().BatchOf(step);
  if (batch == nullptr) {
    return Fail("step " + std::to_string(step) +
                " cannot be replayed: its rows were released when the checkpoint after it "
                "was written. Resume the job to go back to an older checkpoint");
  }
  std::set<std::string> usable = UsableShards();
  std::vector<v1::RowMeta> rows;
  v1::TrainStepRequest request;
  for (const v1::IndexedGroup& group : batch->groups()) {
    for (const v1::IndexedRow& row : group.rows()) {
      if (!usable.contains(row.meta().shard())) return;  // it comes back with its worker
      rows.push_back(row.meta());
      v1::TrainRow* train = request.add_rows();
      train->set_row_id(row.meta().row_id());
      train->set_group_id(group.group_id());
      train->set_reward(row.reward());
    }
  }
  AddSources(rows, request.mutable_sources());
  *request.mutable_expected() = trainer.version;
  request.set_publish(step >= durable_.step());
  Call details;
  details.step = step;
  Send(CallKind::kTrain, {"actor", 0}, std::move(request), now, std::move(details));
}

void PipelineState::OnTrained(const Call& call, Worker& trainer, const v1::TrainStepResponse& response, Monotonic now) {
  trainer.version = response.version();
  published_.reset();  // the version before; without a manifest the new one is asked for
  if (response.has_manifest()) published_ = response.manifest();
  std::map<std::string, double> metrics = StepMetrics(call.step, response, now - call.started, now);
  if (call.step <= durable_.step()) {  // replayed: the new attempt's line counts
    out_->actions.push_back(WriteMetrics{response.version().attempt(), call.step, std::move(metrics)});
    return;
  }
  v1::PipelineRecord record;
  *record.mutable_step_trained()->mutable_version() = response.version();
  *record.mutable_step_trained()->mutable_dropped_rows() = response.dropped_rows();
  record.mutable_step_trained()->mutable_metrics()->insert(metrics.begin(), metrics.end());
  Record(std::move(record));
  metrics_held_ = true;
}

}  // namespace troupe
