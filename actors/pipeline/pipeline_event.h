// SPDX-License-Identifier: Apache-2.0
// What reaches the pipeline's state machine (events) and what it asks for (actions). Values: copied and moved freely,
// of one thread at a time.
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

// What is asked of a role's actor and what it answers: request number i of the one list has answer number i of the
// other, but that LoadCheckpointRequest, too, is answered by TrainerState. proto/troupe/v1/roles.proto tells what each
// means and when it fails.
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
  uint64_t call_id = 0;  // of CallRole
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
struct SteppedBack {  // answers StepBack
  absl::Status status;
  v1::PipelineSnapshot snapshot;  // of the checkpoint that was found whole, or of the beginning
};
struct StopRequested {};  // end at the next safe point, with a checkpoint
struct Tick {};           // time has passed
using PipelineEvent =
    std::variant<WorkerUp, WorkerDown, CallDone, CallFailed, CheckpointWritten, SteppedBack, StopRequested, Tick>;

// ---- Actions, to be carried out in their order, after the records of the same step are in the log ----
struct CallRole {  // answered by CallDone or CallFailed, unless the worker's death is told first
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
struct CheckpointPrune {  // this newest one is in the log: those beyond trainer.max_checkpoints may go
  int64_t step = 0;
};
struct CheckpointGiveUp {  // the log went back to this step: later ones are of a course that is over
  int64_t step = 0;
};
struct StepBack {  // the newest checkpoint is damaged: finds the newest whole one
  int64_t damaged_step = 0;
};
struct WriteMetrics {  // one line of metrics.jsonl; (attempt, step) twice in a row is written once
  int64_t attempt = 0;
  int64_t step = 0;                      // the last one trained; 0: validation before training
  std::map<std::string, double> values;  // verl's names; timing_s/ in seconds, lengths in tokens
};
struct WriteSample {  // one line of samples.jsonl
  int64_t step = 0;
  v1::RowScore score;
};
struct Note {            // a line for people: events.jsonl and the log
  std::string event;     // a word: "checkpoint", "call_failed"
  std::string reason;    // a sentence
  bool routine = false;  // not told to who watches the run
};
inline Note RewardFaultNote(const v1::RowScore& score) {
  return {"reward_fault", "row " + score.row_id() + ": " + score.fault_text(), /*routine=*/true};
}
struct FinishPipeline {  // the last action
  bool succeeded = false;
  bool interrupted = false;  // it stopped at a safe point because it was asked to
  std::string reason;        // a sentence
  int error_code = 0;        // why it failed: INVALID_ARGUMENT where it is what the user gave; 0: not known
};
using PipelineAction = std::variant<CallRole, CheckpointBegin, CheckpointAbandon, CheckpointCommit, CheckpointPrune,
                                    CheckpointGiveUp, StepBack, WriteMetrics, WriteSample, Note, FinishPipeline>;

}  // namespace troupe
