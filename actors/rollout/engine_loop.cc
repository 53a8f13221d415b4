// SPDX-License-Identifier: Apache-2.0
#include "actors/rollout/engine_loop.h"

#include <algorithm>
#include <utility>

#include "runtime/env/clock.h"

namespace troupe::rollout {

EngineLoop::EngineLoop(std::unique_ptr<RolloutEngine> engine) : engine_(std::move(engine)) {
  version_ = engine_->version();
  thread_ = std::thread([this] { Run(); });
}

EngineLoop::~EngineLoop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void EngineLoop::Submit(std::vector<GenerationRequest> requests, OnDone on_done, OnAllDone on_all_done) {
  auto job = std::make_shared<Job>();
  job->left = requests.size();
  job->requests = std::move(requests);
  job->on_done = std::move(on_done);
  job->on_all_done = std::move(on_all_done);
  MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.NotifyAll();
}

void EngineLoop::Commit(ModelWeights weights, ModelVersion version, OnUpdate on_update, OnCommitted on_committed) {
  MutexLock lock(mutex_);
  updates_.push_back({std::move(weights), version, on_update, std::move(on_committed), MonotonicNow()});
  changed_.NotifyAll();
}

ModelVersion EngineLoop::version() const {
  MutexLock lock(mutex_);
  return version_;
}

void EngineLoop::Run() {
  while (true) {
    std::deque<std::shared_ptr<Job>> jobs;
    std::deque<Update> updates;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, Monotonic::Infinite(), [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return stopping_ || !jobs_.empty() || !updates_.empty() || !engine_->idle();
      });
      if (stopping_) break;
      jobs = std::exchange(jobs_, {});
      updates = std::exchange(updates_, {});
    }
    for (Update& update : updates) Take(std::move(update));
    for (std::shared_ptr<Job>& job : jobs) Take(std::move(job));
    if (engine_->idle()) continue;
    absl::StatusOr<std::vector<Generation>> finished = engine_->Step();
    if (!finished.ok()) {
      FinishAll(finished.status());
      continue;
    }
    if (updating_ && !engine_->update_pending()) FinishUpdate(absl::OkStatus());
    for (Generation& generation : *finished) {
      auto it = running_.find(generation.request_id);
      if (it == running_.end()) continue;
      Running running = std::move(it->second);
      running_.erase(it);
      running.job->on_done(running.index, std::move(generation));
      if (--running.job->left == 0) running.job->on_all_done(absl::OkStatus());
    }
  }
  const absl::Status stopping = absl::CancelledError("the rollout is stopping");
  FinishAll(stopping);
  // What was handed over but not taken has an owner who waits, too.
  std::deque<std::shared_ptr<Job>> jobs;
  std::deque<Update> updates;
  {
    MutexLock lock(mutex_);
    jobs = std::exchange(jobs_, {});
    updates = std::exchange(updates_, {});
  }
  for (const std::shared_ptr<Job>& job : jobs) job->on_all_done(stopping);
  for (Update& update : updates) update.on_committed(stopping, absl::ZeroDuration());
}

void EngineLoop::Take(std::shared_ptr<Job> job) {
  if (job->left == 0) return job->on_all_done(absl::OkStatus());
  std::vector<uint64_t> added;
  for (size_t i = 0; i < job->requests.size(); ++i) {
    job->requests[i].request_id = next_id_++;
    uint64_t id = job->requests[i].request_id;
    absl::Status status = engine_->Add(std::move(job->requests[i]));
    if (!status.ok()) {
      for (uint64_t other : added) {
        running_.erase(other);
        engine_->Abort(other).IgnoreError();
      }
      return job->on_all_done(status);
    }
    added.push_back(id);
    running_[id] = {job, i};
  }
}

void EngineLoop::Take(Update update) {
  if (updating_) FinishUpdate(absl::AbortedError("a newer version came before this one was committed"));
  Monotonic began = MonotonicNow();
  absl::Status status = engine_->UpdateWeights(std::move(update.weights), update.version, update.on_update);
  update.began = began;
  updating_ = std::move(update);
  if (!status.ok() || !engine_->update_pending()) FinishUpdate(status);
}

void EngineLoop::FinishUpdate(absl::Status status) {
  Update update = *std::exchange(updating_, std::nullopt);
  {
    MutexLock lock(mutex_);
    version_ = engine_->version();
  }
  update.on_committed(std::move(status), MonotonicNow() - update.began);
}

void EngineLoop::FinishAll(const absl::Status& status) {
  std::unordered_map<uint64_t, Running> running = std::exchange(running_, {});
  std::vector<std::shared_ptr<Job>> told;
  for (auto& [id, entry] : running) {
    engine_->Abort(id).IgnoreError();
    bool first = std::find(told.begin(), told.end(), entry.job) == told.end();
    if (first) told.push_back(entry.job);
  }
  for (const std::shared_ptr<Job>& job : told) job->on_all_done(status);
  if (updating_) FinishUpdate(status);
}

}  // namespace troupe::rollout
