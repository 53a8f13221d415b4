// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/pipeline_durable.h"

#include "runtime/base/status.h"

namespace troupe {

PipelineDurable::PipelineDurable(const PipelineOptions& options, PromptOrder order)
    : options_(options), order_(std::move(order)), index_(options.IndexOptions()) {}

absl::Status PipelineDurable::Apply(const v1::PipelineRecord& record) {
  switch (record.record_case()) {
    case v1::PipelineRecord::kSnapshot:
      return ApplySnapshot(record.snapshot());
    case v1::PipelineRecord::kDispatched:
      return ApplyDispatched(record.dispatched());
    case v1::PipelineRecord::kGenerated:
      return ApplyGenerated(record.generated());
    case v1::PipelineRecord::kScored:
      return ApplyScored(record.scored());
    case v1::PipelineRecord::kReferenceAdded:
      return ApplyReference(record.reference_added());
    case v1::PipelineRecord::kGroupDropped:
      return ApplyDropped(record.group_dropped());
    case v1::PipelineRecord::kBatchLeased: {
      const v1::BatchLeased& batch = record.batch_leased();
      return index_.LeaseBatch(batch.step(), {batch.sequences().begin(), batch.sequences().end()});
    }
    case v1::PipelineRecord::kStepTrained:
      return ApplyTrained(record.step_trained());
    case v1::PipelineRecord::kCheckpointCommitted: {
      checkpoint_step_ = record.checkpoint_committed().step();
      resumed_from_.clear();
      std::vector<std::string> rows = index_.MarkDurable(checkpoint_step_);
      released_.insert(released_.end(), rows.begin(), rows.end());
      return absl::OkStatus();
    }
    case v1::PipelineRecord::kAttemptStarted:
      attempt_ = record.attempt_started().attempt();
      trainer_incarnation_ = record.attempt_started().trainer_incarnation();
      return absl::OkStatus();
    case v1::PipelineRecord::kValidationDone:
      validated_step_ = record.validation_done().step();
      metrics_.insert(record.validation_done().metrics().begin(), record.validation_done().metrics().end());
      return absl::OkStatus();
    case v1::PipelineRecord::RECORD_NOT_SET:
      break;
  }
  return absl::DataLossError("a record without content");
}

absl::Status PipelineDurable::ApplySnapshot(const v1::PipelineSnapshot& snapshot) {
  TROUPE_ASSIGN_OR_RETURN(index_, RowIndex::Restore(options_.IndexOptions(), snapshot.index()));
  job_id_ = snapshot.job_id();
  resumed_from_ = snapshot.resumed_from();
  attempt_ = snapshot.attempt();
  step_ = snapshot.step();
  checkpoint_step_ = snapshot.checkpoint_step();
  validated_step_ = snapshot.validated_step();
  trainer_incarnation_ = snapshot.trainer_incarnation();
  counters_ = snapshot.counters();
  metrics_ = {snapshot.metrics().begin(), snapshot.metrics().end()};
  assignments_.clear();
  for (const v1::GroupAssignment& assignment : snapshot.assignments()) {
    assignments_[assignment.sequence()] = assignment.replica();
  }
  outcomes_.clear();
  dropped_outcomes_ = 0;
  for (bool dropped : snapshot.outcomes()) CountOutcome(dropped);
  released_.clear();  // what was forgotten after the snapshot may be in its queue
  return absl::OkStatus();
}

v1::PipelineSnapshot PipelineDurable::Snapshot() const {
  v1::PipelineSnapshot snapshot;
  snapshot.set_job_id(job_id_);
  snapshot.set_resumed_from(resumed_from_);
  snapshot.set_attempt(attempt_);
  snapshot.set_step(step_);
  snapshot.set_checkpoint_step(checkpoint_step_);
  snapshot.set_validated_step(validated_step_);
  snapshot.set_trainer_incarnation(trainer_incarnation_);
  *snapshot.mutable_index() = index_.Snapshot();
  *snapshot.mutable_counters() = counters_;
  snapshot.mutable_metrics()->insert(metrics_.begin(), metrics_.end());
  for (const auto& [sequence, replica] : assignments_) {
    v1::GroupAssignment* assignment = snapshot.add_assignments();
    assignment->set_sequence(sequence);
    assignment->set_replica(replica);
  }
  snapshot.mutable_outcomes()->Add(outcomes_.begin(), outcomes_.end());
  return snapshot;
}

int32_t PipelineDurable::ReplicaOf(uint64_t sequence) const {
  auto it = assignments_.find(sequence);
  return it == assignments_.end() ? -1 : it->second;
}

double PipelineDurable::DroppedFraction() const {
  int64_t window = options_.train_batch_size * options_.samples;
  return std::ssize(outcomes_) < window ? 0 : static_cast<double>(dropped_outcomes_) / static_cast<double>(window);
}

absl::Status PipelineDurable::ApplyDispatched(const v1::GroupsDispatched& record) {
  for (uint64_t sequence : record.sequences()) {
    if (sequence == index_.next_sequence()) {
      TROUPE_RETURN_IF_ERROR(index_.OpenGroup(sequence, order_.At(sequence).GroupId()));
    } else if (!index_.IsOpen(sequence)) {
      return absl::FailedPreconditionError("group " + std::to_string(sequence) + " is not open");
    }
    assignments_[sequence] = record.replica();
  }
  return absl::OkStatus();
}

absl::Status PipelineDurable::ApplyGenerated(const v1::GroupsGenerated& record) {
  for (const v1::IndexedGroup& group : record.groups()) {
    std::vector<v1::RowMeta> rows;
    for (const v1::IndexedRow& row : group.rows()) rows.push_back(row.meta());
    TROUPE_RETURN_IF_ERROR(index_.AddRows(group.sequence(), std::move(rows)));
    assignments_.erase(group.sequence());
  }
  return absl::OkStatus();
}

absl::Status PipelineDurable::ApplyScored(const v1::RowsScored& record) {
  for (const v1::ScoredRow& row : record.rows()) {
    if (!index_.HasRow(row.row_id())) continue;  // went with its group, by an earlier row of this record
    CountOutcome(row.dropped());
    if (row.answer_fault()) counters_.set_answer_faults(counters_.answer_faults() + 1);
    if (row.dropped()) {
      TROUPE_RETURN_IF_ERROR(DropRow(row.row_id()));
    } else {
      TROUPE_RETURN_IF_ERROR(index_.AddColumn(row.row_id(), "reward", row.reward(), row.metrics()));
    }
  }
  return absl::OkStatus();
}

absl::Status PipelineDurable::DropRow(const std::string& row_id) {
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> rows, index_.DropRow(row_id));
  counters_.set_rows_dropped_program(counters_.rows_dropped_program() + 1);
  counters_.set_rows_dropped_small_group(counters_.rows_dropped_small_group() + std::ssize(rows) - 1);
  released_.insert(released_.end(), rows.begin(), rows.end());
  return absl::OkStatus();
}

absl::Status PipelineDurable::ApplyReference(const v1::ReferenceAdded& record) {
  for (const std::string& row_id : record.row_ids()) {
    if (!index_.HasRow(row_id)) continue;  // dropped meanwhile
    TROUPE_RETURN_IF_ERROR(index_.AddColumn(row_id, "ref_logprobs", 0));
  }
  return absl::OkStatus();
}

absl::Status PipelineDurable::ApplyDropped(const v1::GroupDropped& record) {
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> rows, index_.DropGroup(record.sequence()));
  released_.insert(released_.end(), rows.begin(), rows.end());
  assignments_.erase(record.sequence());
  if (record.reason() == "stale") {
    counters_.set_groups_dropped_stale(counters_.groups_dropped_stale() + 1);
  } else if (record.reason() == "not generated") {
    counters_.set_groups_dropped_not_generated(counters_.groups_dropped_not_generated() + 1);
  } else {
    counters_.set_groups_dropped_quarantined(counters_.groups_dropped_quarantined() + 1);
  }
  return absl::OkStatus();
}

absl::Status PipelineDurable::ApplyTrained(const v1::StepTrained& record) {
  if (record.version().step() != step_ + 1) {
    return absl::FailedPreconditionError("step " + std::to_string(record.version().step()) + " does not follow step " +
                                         std::to_string(step_));
  }
  TROUPE_RETURN_IF_ERROR(index_.MarkTrained(record.version().step()));
  step_ = record.version().step();
  counters_.set_rows_dropped_not_finite(counters_.rows_dropped_not_finite() + record.dropped_rows_size());
  metrics_ = {record.metrics().begin(), record.metrics().end()};
  return absl::OkStatus();
}

void PipelineDurable::CountOutcome(bool dropped) {
  outcomes_.push_back(dropped);
  dropped_outcomes_ += dropped ? 1 : 0;
  if (std::ssize(outcomes_) > options_.train_batch_size * options_.samples) {
    dropped_outcomes_ -= outcomes_.front() ? 1 : 0;
    outcomes_.pop_front();
  }
}

}  // namespace troupe
