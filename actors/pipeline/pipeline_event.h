// SPDX-License-Identifier: Apache-2.0
// What reaches the pipeline's state machine (events) and what it asks for (actions).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "troupe/v1/pipeline.pb.h"
#include "troupe/v1/roles.pb.h"

namespace troupe {

// One replica of a role of the job: {"rollout", 0}.
struct WorkerName {
  std::string role;
  int32_t replica = 0;
  std::string ToString() const { return role + "/" + std::to_string(replica); }
  friend auto operator<=>(const WorkerName&, const WorkerName&) = default;
};

using RoleRequest =
    std::variant<v1::GetRolloutStateRequest, v1::RestoreRowsRequest, v1::GenerateRequest, v1::UpdateWeightsRequest,
                 v1::SyncRowsRequest, v1::ReleaseRowsRequest, v1::ScoreRequest, v1::LogProbsRequest,
                 v1::GetTrainerStateRequest, v1::LoadCheckpointRequest, v1::TrainStepRequest, v1::PublishRequest,
                 v1::SaveCheckpointRequest>;
using RoleResponse =
    std::variant<v1::RolloutState, v1::RestoreRowsResponse, v1::GenerateResponse, v1::UpdateWeightsResponse,
                 v1::SyncRowsResponse, v1::ReleaseRowsResponse, v1::ScoreResponse, v1::LogProbsResponse,
                 v1::TrainerState, v1::TrainStepResponse, v1::PublishResponse, v1::SaveCheckpointResponse>;

// ---- Events ----
struct WorkerUp {  // also: a new incarnation took over
  WorkerName worker;
  uint64_t incarnation = 0;
};
struct WorkerDown {
  WorkerName worker;
  uint64_t incarnation = 0;
};
struct CallDone {
  uint64_t call_id = 0;
  RoleResponse response;
};
struct CallFailed {
  uint64_t call_id = 0;
  absl::Status status;
};
struct CheckpointWritten {  // answers CheckpointCommit and a failed CheckpointBegin
  int64_t step = 0;
  absl::Status status;
};
struct StopRequested {};
struct Tick {};
using PipelineEvent = std::variant<WorkerUp, WorkerDown, CallDone, CallFailed, CheckpointWritten, StopRequested, Tick>;

// ---- Actions, to be carried out in their order, after the records of the same step are in the log ----
struct CallRole {
  uint64_t call_id = 0;
  WorkerName worker;
  uint64_t incarnation = 0;
  RoleRequest request;
};
struct CheckpointBegin {  // an empty folder for the step
  int64_t step = 0;
};
struct CheckpointAbandon {  // removes what there is of it: what is not whole helps nobody and takes space
  int64_t step = 0;
};
struct CheckpointCommit {  // writes the controller's part and the manifest; answered by CheckpointWritten
  int64_t step = 0;
  v1::PipelineSnapshot snapshot;
};
struct WriteMetrics {  // one line of metrics.jsonl; (attempt, step) twice in a row is written once
  int64_t attempt = 0;
  int64_t step = 0;
  std::map<std::string, double> values;
};
struct WriteSample {  // one line of samples.jsonl
  int64_t step = 0;
  v1::RowScore score;
};
struct Note {  // a line for people: events.jsonl and the log
  std::string kind;
  std::string text;
};
struct FinishPipeline {
  bool succeeded = false;
  bool interrupted = false;
  std::string reason;
};
using PipelineAction = std::variant<CallRole, CheckpointBegin, CheckpointAbandon, CheckpointCommit, WriteMetrics,
                                    WriteSample, Note, FinishPipeline>;

}  // namespace troupe
