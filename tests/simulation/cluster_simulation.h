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

// One run: a seed, and what of it is left out. Equal variations give equal runs.
struct Variation {
  uint64_t seed = 0;
  uint32_t without = 0;  // Kinds of faults, by bit.
  int faults_max = 1'000'000;
  int users_max = 8;
  int nodes_max = 4;

  // As the flags of the program that runs seeds.
  std::string ToString() const;
  friend bool operator==(const Variation&, const Variation&) = default;
};

class ClusterSimulation {
 public:
  static constexpr int kFaultKinds = 16;

  explicit ClusterSimulation(uint64_t seed) : ClusterSimulation(Variation{.seed = seed}) {}
  explicit ClusterSimulation(const Variation& variation);

  // Throws Broken.
  void Run();

  struct Counts {
    int64_t steps = 0;
    int jobs_succeeded = 0, jobs_failed = 0, jobs_cancelled = 0, jobs_refused = 0;
    int restarts = 0, nodes_lost = 0, heads = 0, requeued = 0;
  };
  const Counts& counts() const { return counts_; }
  // What users asked for and which faults there were, in order: "12.3s head crashes".
  const std::vector<std::string>& script() const { return script_; }

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
    kDeviceFailure,
    kDrain,
    kScale,
    kQueue,
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
  void DrawTerms(v1::JobSpec& spec);
  void DrawRule(v1::RoleSpec& role);
  void Submit(size_t user);
  void Cancel(const std::string& job_id);
  void Stop(const std::string& job_id);
  // Asks until it is answered, whatever the answer.
  void Ask(std::function<scheduler::Event(scheduler::CallId)> make);
  void Drain(const std::string& node, bool drain);
  void Scale();
  void SetQuota(int devices);
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

  void Note(const std::string& what);

  const Variation variation_;
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
  int faults_drawn_ = 0;
  int quota_devices_ = 0;                // As wanted.
  std::map<std::string, bool> drained_;  // The same, by node.
  std::vector<std::string> script_;
};

}  // namespace troupe::simulation
