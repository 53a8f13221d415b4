// SPDX-License-Identifier: Apache-2.0
// SimHead: the real scheduler core on a simulated disk and network. It checks after every step that replay gives the
// same state and that every invariant holds, and keeps the state that is durable, which others compare their messages
// with.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "scheduler/core/cluster.h"
#include "scheduler/store/memory_store.h"
#include "tests/simulation/link.h"
#include "tests/simulation/simulator.h"

namespace troupe::simulation {

class SimHead {
 public:
  SimHead(Simulator* simulator, scheduler::ClusterOptions options) : simulator_(simulator), options_(options) {}

  bool up() const { return cluster_.has_value(); }
  void Start();
  // Batches that the disk has may or may not have become durable; nothing more leaves.
  void Crash();
  // Like SIGSTOP: what arrives waits.
  void Stall(absl::Duration duration) { stalled_until_ = simulator_->now() + duration; }
  void set_slow_disk(bool slow) { slow_disk_ = slow; }
  // The next commit fails; the head ends and must be started again.
  void FailDisk() {
    if (up()) store_->Fail(absl::ResourceExhaustedError("disk full"));
  }
  bool stepped_down() const { return stepped_down_; }

  // What arrives. A call is answered at most once, when its step is durable; never when the head ends before.
  void Deliver(scheduler::Event event);
  void Call(std::function<scheduler::Event(scheduler::CallId)> make, std::function<void(scheduler::Answer)> answered);
  void AddLink(std::shared_ptr<Link> link) { links_[link->id()] = std::move(link); }
  void LinkClosed(scheduler::SessionId id);

  // Of what is durable.
  const scheduler::ClusterState& durable() const { return durable_; }
  // Of what is decided; requires up().
  const scheduler::ClusterState& decided() const { return cluster_->state(); }
  int64_t steps() const { return steps_; }
  // Why the job is where it is, as readers were told last.
  std::string ReasonOf(const std::string& job_id) const {
    auto told = reasons_.find(job_id);
    return told == reasons_.end() ? "" : told->second;
  }

 private:
  void Step(const scheduler::Event& event);
  void Append(std::vector<v1::Record> records, bool decides, std::vector<scheduler::Action> actions);
  void Check(const scheduler::ClusterState& before);
  void CommitLater();
  void TickLater();
  void Act(scheduler::Action action);

  Simulator* const simulator_;
  const scheduler::ClusterOptions options_;
  scheduler::MemoryDisk disk_;
  scheduler::ClusterState durable_;
  std::optional<scheduler::Cluster> cluster_;
  std::unique_ptr<scheduler::MemoryStore> store_;
  scheduler::ClusterState replayed_;
  uint64_t life_ = 0;  // Callbacks of an older life do nothing.
  bool committing_ = false;
  int decisions_in_flight_ = 0;
  bool slow_disk_ = false;
  bool stepped_down_ = false;
  Monotonic stalled_until_;
  uint64_t tick_ = 0;
  int64_t steps_ = 0;
  int64_t records_since_snapshot_ = 0;
  scheduler::CallId last_call_ = 0;
  std::map<std::string, std::string> reasons_;
  std::map<scheduler::CallId, std::function<void(scheduler::Answer)>> calls_;
  std::map<scheduler::SessionId, std::shared_ptr<Link>> links_;
};

}  // namespace troupe::simulation
