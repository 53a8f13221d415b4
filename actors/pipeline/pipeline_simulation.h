// SPDX-License-Identifier: Apache-2.0
// A simulated job around the real PipelineState: workers that die at any moment, answers that come late or never. All
// from one seed. For tests only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/pipeline/pipeline_state.h"

namespace troupe {

struct SimulationOptions {
  PipelineOptions pipeline;  // of the job; checkpoints_dir is set by the simulation
  uint64_t prompts = 12;     // of the data set, with ids from 0
  uint32_t seed = 0;
  int kills = 0;             // random deaths, of the controller too
  int64_t damaged_step = 0;  // the first checkpoint of this step cannot be loaded
  int max_checkpoints = 0;   // trainer.max_checkpoints; 0: all are kept
  int publish_failures = 0;  // so many times there is no memory to publish a version
  int not_generated_of = 0;  // every so many groups (by hash) the engine cannot make; 0: never
  int save_failures = 0;     // so many times the trainer cannot be reached for a checkpoint, though it counts as up
  int program_fault_of = 0;  // every so many rows (by hash) the reward program fails; 0: never
  int score_failures = 0;    // so many calls of the reward role fail, with `score_failure`
  absl::Status score_failure;
  int64_t disk_full_at = INT64_MAX;  // the step from which no rollout can write its rows
  std::optional<int> stop_after;     // events, then StopRequested
};

// What was trained: the row ids of each step, and a hash chain over their contents.
struct TrainedHistory {
  std::vector<std::vector<std::string>> steps;
  uint64_t weights = 1;
  friend bool operator==(const TrainedHistory&, const TrainedHistory&) = default;
};

// The machine is real; its workers, shards, checkpoints and clock are tables in memory. At each turn one thing is
// chosen at random: a worker handles one of the calls under way (in any order), an event reaches the controller, time
// passes, or somebody dies. Contents of rows and weights are hashes of what they were made from, so that equal
// histories mean equal bits. Not thread-safe; the same options give the same run.
class PipelineSimulation {
 public:
  explicit PipelineSimulation(SimulationOptions options);

  // Runs until the pipeline has finished; gives up (false) after too many events.
  bool Run();
  // A new job in the same folder, from the newest checkpoint.
  void Resume(std::optional<int> stop_after);

  // Of the last Run: how it ended; what its trainer holds; the last line of each step; the invariants (PIPE-1...) that
  // were broken, as sentences.
  const std::optional<FinishPipeline>& finish() const { return finish_; }
  const TrainedHistory& history() const { return trainer_history_; }
  const std::map<int64_t, std::map<std::string, double>>& metrics() const { return metrics_; }
  int checkpoints_begun() const { return checkpoints_begun_; }
  const std::set<std::string>& violations() const { return violations_; }

 private:
  struct Worker {
    uint64_t incarnation = 0;
    bool up = false;
    v1::WeightVersion version;  // rollout
    uint64_t weights = 1;       // rollout: what they hash to
  };
  struct PendingCall {
    CallRole call;
    std::optional<PipelineEvent> answer;  // set once the worker has handled it
  };

  PipelineDurable FreshDurable() const;
  void StartController();
  void Deliver(const PipelineEvent& event);
  void Carry(const PipelineAction& action);
  void CheckReplay();
  void Kill();
  v1::PipelineSnapshot NewestCheckpoint() const;
  void Call(const CallRole& call);
  void Commit(const CheckpointCommit& commit);
  void Prune(int64_t step);
  void GiveUp(int64_t step);
  PipelineEvent Handle(const CallRole& call);
  PipelineEvent HandleRollout(const CallRole& call);
  PipelineEvent HandleScorer(const CallRole& call);
  PipelineEvent HandleTrainer(const CallRole& call);
  PipelineEvent Generate(const CallRole& call, const v1::GenerateRequest& request);
  PipelineEvent Load(const CallRole& call, const v1::LoadCheckpointRequest& request);
  absl::Status Publish(v1::WeightManifest* manifest);
  PipelineEvent Train(const CallRole& call, const v1::TrainStepRequest& request);
  absl::Status Fetch(const google::protobuf::RepeatedPtrField<v1::RowSource>& sources);
  void Violation(std::string text) { violations_.insert(std::move(text)); }

  SimulationOptions options_;
  std::mt19937 random_;
  Monotonic now_ = Monotonic::FromNanoseconds(1);
  int kills_left_ = 0;
  std::string job_ = "job-1";

  // What survives deaths: logs, segment files, checkpoints.
  std::vector<v1::PipelineRecord> log_;
  std::map<std::string, std::map<std::string, uint64_t>> shards_;      // by shard, row_id: content
  std::map<std::string, std::map<std::string, uint64_t>> saved_rows_;  // by checkpoint folder
  std::map<std::string, TrainedHistory> checkpoints_;
  std::map<int64_t, v1::PipelineSnapshot> committed_;
  std::string damaged_;  // checkpoint folder
  bool damaged_step_made_ = false;
  int checkpoints_begun_ = 0;

  // Processes.
  std::unique_ptr<PipelineState> controller_;
  std::map<WorkerName, Worker> workers_;
  std::vector<PendingCall> calls_;
  std::vector<PipelineEvent> events_;  // on their way to the controller
  TrainedHistory trainer_history_;
  v1::WeightVersion trainer_version_;
  bool trainer_loaded_ = false;
  std::map<std::string, TrainedHistory> published_;  // by "attempt,step"
  std::optional<v1::TrainStepResponse> last_response_;

  std::optional<FinishPipeline> finish_;
  std::map<int64_t, std::map<std::string, double>> metrics_;
  std::set<std::string> durable_rows_;  // of committed checkpoints
  std::set<std::string> violations_;
};

}  // namespace troupe
