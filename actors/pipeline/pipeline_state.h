// SPDX-License-Identifier: Apache-2.0
// PipelineState: decides everything that the controller of a training job does. A state machine without IO, clock,
// threads or randomness: an event and the time in, records and actions out.
//
//   prompts -> Generate (rollout) -> Score (reward), LogProbs (reference) -> TrainStep (actor) -> UpdateWeights
//   (rollout)
//
// After each event the machine looks at where it stands and asks for whatever is due and not under way ("level
// triggered"), so a lost answer, a dead worker or a restart of the controller needs no case of its own: the call is
// gone, so it is due again.
//
// Invariants (checked by the simulation test):
//   PIPE-1: each group is trained once in the surviving history, in the same step as without faults.
//   PIPE-2: no rollout gets a prompt whose place in the order its weights are too old for.
//   PIPE-3: rows are released only after a checkpoint that contains their effect, or when dropped.
//   PIPE-4: durable state changes only by Apply(record).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/pipeline/busy_clock.h"
#include "actors/pipeline/pipeline_durable.h"
#include "actors/pipeline/pipeline_event.h"
#include "actors/pipeline/pipeline_options.h"
#include "actors/pipeline/validation_scores.h"
#include "runtime/base/monotonic.h"
#include "troupe/v1/head.pb.h"

namespace troupe {

// Groups in one Generate call: bounds the message; more are sent as several calls.
inline constexpr size_t kGroupsPerCallMax = 256;
// Rows in one Score or LogProbs call: bounds what a scorer's death repeats.
inline constexpr size_t kRowsPerCallMax = 1024;
// A call that failed though its worker lives is tried again after 0.1 s, doubled up to 5 s, so often.
inline constexpr int kCallAttemptsMax = 12;
absl::Duration CallBackoff(int failures);
// Deaths of a rollout with a group running, after which the group is sent alone; and deaths alone, after which it is
// dropped.
inline constexpr int kDeathsBeforeAlone = 2;
inline constexpr int kDeathsAloneMax = 2;
// Rows whose text is kept for samples.jsonl, a step.
inline constexpr int kSampleTextsPerStep = 4;

class PipelineState {
 public:
  struct Output {
    std::vector<v1::PipelineRecord> records;  // applied already; durable before the actions leave
    std::vector<PipelineAction> actions;
  };

  // `durable` is fresh with its job's snapshot applied, or recovered from the log.
  PipelineState(PipelineOptions options, PipelineDurable durable);

  Output Step(const PipelineEvent& event, Monotonic now);

  bool finished() const { return finished_; }
  const PipelineDurable& durable() const { return durable_; }
  // What people see: phase and what each role does and waits for. Without metrics_json.
  v1::JobProgress Progress() const;
  // When a Tick is useful: the end of the nearest backoff. Infinite: none.
  Monotonic NextTick(Monotonic now) const;

 private:
  enum class CallKind {
    kRolloutState,
    kRestore,
    kGenerate,
    kValidate,
    kUpdateWeights,
    kSyncRows,
    kScore,
    kScoreValidation,
    kReference,
    kTrainerState,
    kLoad,
    kTrain,
    kPublish,
    kSave,
    kRelease,
  };
  struct Call {
    CallKind kind;
    WorkerName worker;
    uint64_t incarnation = 0;
    Monotonic started;
    std::vector<uint64_t> sequences;  // kGenerate
    std::vector<std::string> names;   // groups of kValidate, rows of kScore...
    int64_t step = 0;                 // kTrain
    uint64_t weights_hash = 0;        // kUpdateWeights
  };
  struct Worker {
    bool up = false;
    uint64_t incarnation = 0;
    int failures = 0;      // in a row, while it lived
    Monotonic not_before;  // backoff
    // Rollout.
    bool restored = false;
    std::optional<v1::RolloutState> weights;
    // Trainer.
    bool loaded = false;
    bool must_load = false;
    v1::WeightVersion version;
  };
  struct Validation {
    int64_t step = 0;
    std::map<std::string, v1::PromptTask> tasks;                  // to be generated, by group_id
    std::map<std::string, v1::RowMeta> rows;                      // generated, not scored
    std::map<std::string, std::vector<ValidationSample>> scores;  // by group_id
    std::vector<std::string> done_rows;
    int64_t dropped_rows = 0;        // the reward program's fault: in no mean
    int64_t not_generated_rows = 0;  // the engine could not make them: numbers that are not finite
    Monotonic started;
  };
  struct Checkpoint {
    int64_t step = 0;
    v1::PipelineSnapshot snapshot;
    std::set<uint64_t> calls;  // not answered yet
    bool committing = false;
    Monotonic started;
  };

  // ---- pipeline_state.cc: events and calls ----
  void OnWorkerUp(const WorkerUp& event, Monotonic now);
  void OnWorkerDown(const WorkerName& name, Monotonic now);
  void OnCallDone(const CallDone& event, Monotonic now);
  void OnCallFailed(const CallFailed& event, Monotonic now);
  void OnCheckpointWritten(const CheckpointWritten& event, Monotonic now);
  void Advance(Monotonic now);
  void Record(v1::PipelineRecord record);
  uint64_t Send(CallKind kind, const WorkerName& worker, RoleRequest request, Monotonic now, Call details);
  uint64_t Send(CallKind kind, const WorkerName& worker, RoleRequest request, Monotonic now);
  std::optional<Call> TakeCall(uint64_t call_id, Monotonic now);
  BusyClock* ClockOf(CallKind kind);
  Worker* Find(const WorkerName& name);
  bool Usable(const WorkerName& name, Monotonic now);  // up, and no backoff
  int OpenCalls(const WorkerName& name, std::initializer_list<CallKind> kinds) const;
  static bool IsWork(CallKind kind);
  bool Calling(CallKind kind) const;
  std::set<std::string> UsableShards() const;
  void Fail(std::string reason, int error_code = 0);
  void Finish(FinishPipeline finish);
  void ReleaseRows(Monotonic now);

  // ---- pipeline_rollouts.cc ----
  void AdvanceRollouts(Monotonic now);
  void AdvanceDispatch(Monotonic now);
  void OpenGroups();
  void ReassignGroups();
  void Dispatch(int32_t replica, Monotonic now);
  int32_t RolloutReplicas() const;
  int32_t PreferredReplica(int64_t position) const;
  bool WeightsCurrent(const Worker& rollout) const;
  void OnGenerated(const Call& call, const v1::GenerateResponse& response, Monotonic now);
  void CountDeaths(const Call& call);

  // ---- pipeline_scoring.cc ----
  void AdvanceScorers(Monotonic now);
  void Score(const WorkerName& scorer, Monotonic now);
  void Refer(const WorkerName& reference, Monotonic now);
  std::vector<v1::RowMeta> LeaseFor(const WorkerName& scorer, std::string_view column);
  void OnScored(const Call& call, const v1::ScoreResponse& response);
  void OnReferred(const Call& call);
  void CheckDropped();

  // ---- pipeline_trainer.cc ----
  void AdvanceTrainer(Monotonic now);
  void LoadTrainer(Worker& trainer, Monotonic now);
  void TrainBatch(int64_t step, Worker& trainer, Monotonic now);
  bool LeaseNextBatch();
  void OnTrainerState(const Call& call, Worker& trainer, const v1::TrainerState& state);
  void OnTrained(const Call& call, Worker& trainer, const v1::TrainStepResponse& response, Monotonic now);

  // ---- pipeline_checkpoint.cc ----
  bool CheckpointDue() const;
  bool AdvanceCheckpoint(Monotonic now);  // whether the trainer is taken by it
  void StartCheckpoint(Monotonic now);
  void AbandonCheckpoint(const absl::Status& why, Monotonic now);
  void AdvanceFinish();
  void AdvanceStepBack();
  void OnSteppedBack(const SteppedBack& event, Monotonic now);

  // ---- pipeline_validation.cc ----
  bool ValidationDue() const;
  void AdvanceValidation(Monotonic now);
  void StartValidation(Monotonic now);
  void OnValidationRows(const Call& call, const v1::GenerateResponse& response);
  void OnValidationScores(const Call& call, const v1::ScoreResponse& response);
  void FinishValidation(Monotonic now);

  // ---- pipeline_metrics.cc ----
  std::map<std::string, double> StepMetrics(int64_t step, const v1::TrainStepResponse& response, absl::Duration update,
                                            Monotonic now);
  void WriteHeldMetrics();

  PipelineOptions options_;
  PipelineDurable durable_;
  Output* out_ = nullptr;  // during Step

  std::map<WorkerName, Worker> workers_;
  std::map<uint64_t, Call> calls_;
  uint64_t next_call_id_ = 1;
  std::optional<v1::WeightManifest> published_;  // the newest that the trainer offers; nothing: not known
  std::map<uint64_t, int> deaths_;               // of rollouts, by group
  std::optional<Validation> validation_;
  std::optional<Checkpoint> checkpoint_;
  int checkpoint_failures_ = 0;      // in a row
  Monotonic checkpoint_not_before_;  // backoff
  int64_t checkpoint_given_up_step_ = -1;
  std::string damage_;          // what is wrong with the checkpoint that was to be loaded; empty: nothing
  bool stepping_back_ = false;  // StepBack was asked for
  std::vector<std::string> to_release_;
  bool metrics_held_ = false;  // the newest step's line waits for its validation
  int64_t texts_step_ = -1;    // the step for which sample texts were asked

  bool stopping_ = false;
  bool finished_ = false;

  BusyClock generating_, scoring_, referring_, updating_weights_;
  absl::Duration saving_ = absl::ZeroDuration();
  std::optional<Monotonic> step_began_;
};

}  // namespace troupe
