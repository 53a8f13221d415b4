// SPDX-License-Identifier: Apache-2.0
// EngineLoop: a rollout engine and the one thread that drives it. Work and new weights are handed in from any thread
// and taken up between two steps of the engine.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "actors/rollout/engine/engine.h"
#include "runtime/base/mutex.h"

namespace troupe::rollout {

class EngineLoop {
 public:
  // Each generation as it ends, on the engine's thread: keep it short.
  using OnDone = std::function<void(size_t index, Generation generation)>;
  // After all of them (OK), or with an error when some could not be taken; on the engine's thread.
  using OnAllDone = std::function<void(absl::Status)>;
  using OnCommitted = std::function<void(absl::Status, absl::Duration pause)>;

  explicit EngineLoop(std::unique_ptr<RolloutEngine> engine);
  // Aborts what runs; its callbacks get CANCELLED.
  ~EngineLoop();

  // All requests enter the engine between the same two steps, so a batch is composed the same way in every run.
  // request_id is set here.
  void Submit(std::vector<GenerationRequest> requests, OnDone on_done, OnAllDone on_all_done);
  void Commit(ModelWeights weights, ModelVersion version, OnUpdate on_update, OnCommitted on_committed);

  ModelVersion version() const;

 private:
  struct Job {
    std::vector<GenerationRequest> requests;
    OnDone on_done;
    OnAllDone on_all_done;
    size_t left = 0;
  };
  struct Update {
    ModelWeights weights;
    ModelVersion version;
    OnUpdate on_update;
    OnCommitted on_committed;
    Monotonic began;
  };
  struct Running {
    std::shared_ptr<Job> job;
    size_t index = 0;
  };

  void Run();
  void Take(std::shared_ptr<Job> job);
  void Take(Update update);
  void FinishUpdate(absl::Status status);
  void FinishAll(const absl::Status& status);

  std::unique_ptr<RolloutEngine> engine_;          // of thread_
  std::unordered_map<uint64_t, Running> running_;  // of thread_
  std::optional<Update> updating_;                 // of thread_: given to the engine, not committed yet
  uint64_t next_id_ = 1;                           // of thread_

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::deque<Update> updates_ ABSL_GUARDED_BY(mutex_);
  ModelVersion version_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace troupe::rollout
