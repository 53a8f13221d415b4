// SPDX-License-Identifier: Apache-2.0
// PipelineDurable: what the controller must not forget. It changes only by Apply(record), also while it runs; recovery
// is a snapshot and the records after it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actors/pipeline/pipeline_options.h"
#include "actors/pipeline/prompt_order.h"
#include "runtime/stream/row_index.h"
#include "troupe/v1/pipeline.pb.h"

namespace troupe {

class PipelineDurable {
 public:
  PipelineDurable(const PipelineOptions& options, PromptOrder order);

  // An error means that the record does not fit the state: the log is of another job or damaged. Nothing half-done is
  // left that matters, since the controller ends then.
  absl::Status Apply(const v1::PipelineRecord& record);
  v1::PipelineSnapshot Snapshot() const;

  int64_t attempt() const { return attempt_; }  // -1: the trainer was never started
  int64_t step() const { return step_; }
  int64_t checkpoint_step() const { return checkpoint_step_; }
  int64_t validated_step() const { return validated_step_; }
  uint64_t trainer_incarnation() const { return trainer_incarnation_; }
  const std::string& job_id() const { return job_id_; }
  const std::string& resumed_from() const { return resumed_from_; }
  const v1::PipelineCounters& counters() const { return counters_; }
  const std::map<std::string, double>& metrics() const { return metrics_; }
  const PromptOrder& order() const { return order_; }

  const RowIndex& index() const { return index_; }
  // Leases are soft and not recorded.
  RowIndex& leases() { return index_; }
  // The replica that an open group was given to; -1: none.
  int32_t ReplicaOf(uint64_t sequence) const;

  // Rows of the last batch's size whose reward was dropped for the program's fault, as a fraction; 0 until there are
  // that many.
  double DroppedFraction() const;
  // Ids that were forgotten since the last call: the shards may release them.
  std::vector<std::string> TakeReleased() { return std::exchange(released_, {}); }

 private:
  absl::Status ApplySnapshot(const v1::PipelineSnapshot& snapshot);
  absl::Status ApplyDispatched(const v1::GroupsDispatched& record);
  absl::Status ApplyGenerated(const v1::GroupsGenerated& record);
  absl::Status ApplyScored(const v1::RowsScored& record);
  absl::Status ApplyReference(const v1::ReferenceAdded& record);
  absl::Status ApplyDropped(const v1::GroupDropped& record);
  absl::Status ApplyTrained(const v1::StepTrained& record);
  absl::Status DropRow(const std::string& row_id);
  void CountOutcome(bool dropped);

  PipelineOptions options_;
  PromptOrder order_;
  std::string job_id_;
  std::string resumed_from_;
  int64_t attempt_ = -1;
  int64_t step_ = 0;
  int64_t checkpoint_step_ = 0;
  int64_t validated_step_ = -1;
  uint64_t trainer_incarnation_ = 0;
  RowIndex index_;
  std::map<uint64_t, int32_t> assignments_;  // of open groups
  v1::PipelineCounters counters_;
  std::map<std::string, double> metrics_;
  std::deque<bool> outcomes_;  // dropped or not, of the last batch's number of scored rows
  int64_t dropped_outcomes_ = 0;
  std::vector<std::string> released_;
};

}  // namespace troupe
