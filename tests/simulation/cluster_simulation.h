// SPDX-License-Identifier: Apache-2.0
// ClusterSimulation: a whole cluster from one seed: nodes, users, jobs and faults drawn at random. While it runs every
// step is checked (SimHead) and every process too (SimNode). When the faults have ended every job must end, and nothing
// may be left.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/sim_head.h"
#include "tests/simulation/sim_node.h"
#include "tests/simulation/simulator.h"

namespace troupe::simulation {

class ClusterSimulation {
 public:
  explicit ClusterSimulation(uint64_t seed);

  // Throws Broken.
  void Run();

  struct Counts {
    int64_t steps = 0;
    int jobs_succeeded = 0, jobs_failed = 0, jobs_cancelled = 0, jobs_refused = 0;
    int restarts = 0, nodes_lost = 0, heads = 0, requeued = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  enum class Fault {
    kHeadCrash,
    kHeadStall,
    kSlowDisk,
    kFullDisk,
    kMachineCrash,
    kAgentRestart,
    kKeeperDeath,
    kFreeze,
    kLinkBreak,
    kCut,
    kOneWayCut,
    kWorkerDeath,
  };
  struct User {
    v1::JobSpec spec;
    std::string request_id;
    std::string job_id;  // When answered.
    bool refused = false;
    absl::Duration work;  // Of the controller, or of each worker.
  };

  void MakeNodes();
  void MakeUsers();
  v1::JobSpec DrawSpec(const std::string& name);
  void Submit(size_t user);
  void Cancel(const std::string& job_id);
  void Stop(const std::string& job_id);
  bool Ended(const std::string& node, uint64_t incarnation) const;
  void CheckStarted(const std::string& node, const Process& process);
  void Ready(const std::string& node, const ActorLife& life);
  void Work(const std::string& node, const ActorLife& life, Monotonic until);
  void Finish(const std::string& node, const ActorLife& life, bool interrupted);
  void DrawFault();
  void Apply(Fault fault);
  void Cut(SimNode& node, bool to_head, bool to_node, absl::Duration duration);
  void RestartHeadLater();
  void Heal();
  bool AllEnded() const;
  bool CouldEnd(const scheduler::JobRecord& job) const;
  void CheckEnd();
  void RunUntil(Monotonic end, bool stop_when_ended);
  SimNode& AnyNode() { return *nodes_[static_cast<size_t>(sim_.Between(0, static_cast<int64_t>(nodes_.size()) - 1))]; }
  SimNode* FindNode(const std::string& id);

  Simulator sim_;
  SimHead head_;
  World world_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<User> users_;
  std::vector<Fault> faults_;   // Those of this run.
  std::set<std::string> gone_;  // Machines that never come back; at most one.
  bool lost_one_ = false;
  bool faults_on_ = true;
  Counts counts_;
};

}  // namespace troupe::simulation
