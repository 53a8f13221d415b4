// SPDX-License-Identifier: Apache-2.0
// SimNode: a model of a machine: its agent, its keeper, and the worker processes, by the contract of node.proto. It is
// the witness of what really runs: devices with two owners, workers that were never granted durably, acknowledgements
// of exits that are not recorded are found here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/base/ids.h"
#include "scheduler/core/slots.h"
#include "tests/simulation/link.h"
#include "tests/simulation/sim_head.h"
#include "tests/simulation/simulator.h"

namespace troupe::simulation {

// A worker process. It is the keeper's; agents come and go.
struct Process {
  ActorLife life;
  v1::StartWorker start;
  uint64_t node_incarnation = 0;  // Under which it was granted.
  std::string slot;               // Of the job: equal for those that take turns.
  bool ready = false;
  bool alive = true;
  bool stop_asked = false;
};

// What the world tells a node; all nodes share one.
struct World {
  Simulator* simulator;
  SimHead* head;
  std::function<void(const std::string& node, const Process&)> started;  // After the node's own checks.
  std::function<void(const std::string& node, const ActorLife&)> ready;
  scheduler::SessionId last_session = 0;
};

class SimNode {
 public:
  SimNode(World* world, std::string id, v1::Resources resources, std::map<std::string, std::string> labels)
      : world_(world), id_(std::move(id)), resources_(std::move(resources)), labels_(std::move(labels)) {}

  void Boot();                           // The machine starts anew, or for the first time.
  void CrashMachine();                   // Everything on it is gone at once; nobody is told.
  void RestartAgent();                   // kill -9 of the agent; a new one finds the keeper.
  void KillKeeper();                     // All workers die; the agent tells.
  void Freeze(absl::Duration duration);  // SIGSTOP of all its processes.
  void BreakLink() {
    if (link_ != nullptr) link_->Break();
  }
  void KillSomeWorker();
  void SetDeviceHealth(int device, v1::DeviceHealth::State state);  // What its agent finds and tells.
  // A process ends by itself.
  void Exit(const ActorLife& life, v1::ExitCause::Kind kind, int code);

  bool up() const { return up_; }
  const std::string& id() const { return id_; }
  uint64_t incarnation() const { return incarnation_; }
  const v1::Resources& resources() const { return resources_; }
  const std::map<std::string, std::string>& labels() const { return labels_; }
  const std::map<ActorLife, Process>& processes() const { return processes_; }
  bool IsAlive(const ActorLife& life) const { return up_ && processes_.contains(life) && processes_.at(life).alive; }
  size_t unacknowledged() const { return exits_.size(); }
  Cuts cuts;

 private:
  void Dial();
  v1::Device DeviceOf(int index) const;
  void Arrive(const v1::HeadToAgent& message);
  void Heartbeat();
  void Start(const v1::StartWorker& start);
  void CheckOwners(const Process& process) const;
  void Kill(const ActorLife& life, absl::Duration after, v1::ExitCause::Kind kind);
  void Send(v1::AgentToHead message);
  void SendExit(const ActorLife& life);
  // Runs `event` unless the machine has crashed since; later when it is frozen.
  void Later(absl::Duration delay, std::function<void()> event);

  World* const world_;
  const std::string id_;
  const v1::Resources resources_;
  const std::map<std::string, std::string> labels_;
  std::set<int> failed_;  // Devices.
  bool up_ = false;
  uint64_t boot_ = 0;
  Monotonic frozen_until_;

  // In the runtime folder: gone with the machine.
  uint64_t incarnation_ = 0;
  uint64_t highest_term_ = 0;
  // The keeper's.
  std::map<ActorLife, Process> processes_;
  std::map<ActorLife, v1::ExitCause> exits_;
  // The agent's.
  std::shared_ptr<Link> link_;
  bool welcomed_ = false;
  Monotonic last_reply_;
  uint64_t agent_ = 0;  // Grows with each agent.
};

}  // namespace troupe::simulation
