// SPDX-License-Identifier: Apache-2.0
// KeeperState: what a keeper decides, as a state machine without IO: Step(event, now) -> actions.
//
//   spawn ──> starting ──exec──> running ──its process exits──> ending ──its tree is gone──> ended ──acknowledged──>
//   (gone)
//                 └────────could not be started────────────────────^
//
// One agent at a time. Without one for agent_loss_grace, after a shutdown request or a SIGTERM the keeper ends every
// worker, and itself when the last one is gone.
#pragma once

#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"
#include "runtime/base/monotonic.h"
#include "runtime/keeper/exit_evidence.h"
#include "troupe/v1/keeper.pb.h"

namespace troupe::keeper {

// Grows when the packets change in a way that an older peer would misread.
inline constexpr uint32_t kKeeperProtocolVersion = 1;

// ---- Events ----
struct AgentConnected {};
struct AgentLost {};
struct AgentRequest {
  v1::KeeperRequest request;
};
// The program of a started worker runs, or could not be executed.
struct ProgramExecuted {
  ActorLife actor;
  absl::Status status;
};
// Its own process has exited (its tree may not have).
struct ProcessExited {
  ActorLife actor;
};
// Every process of its tree is gone and its output is written.
struct TreeGone {
  ActorLife actor;
  ExitEvidence evidence;
};
struct TerminationRequested {};
struct TimePassed {};
using KeeperStateEvent = std::variant<AgentConnected, AgentLost, AgentRequest, ProgramExecuted, ProcessExited, TreeGone,
                                      TerminationRequested, TimePassed>;

// ---- Actions ----
struct SendToAgent {
  v1::KeeperEvent event;
  std::vector<ActorLife> pidfds;  // Of these workers, in this order.
};
// Answered by SetProcess at once and ProgramExecuted later.
struct StartWorkerProcess {
  v1::KeeperSpawn spawn;
};
// SIGKILL: of the whole tree. Others: to each process of it once.
struct SignalTree {
  ActorLife actor;
  int signal;
};
struct EndKeeper {};
using KeeperAction = std::variant<SendToAgent, StartWorkerProcess, SignalTree, EndKeeper>;

class KeeperState {
 public:
  // Far above what a node of one machine hosts; bounds memory and descriptors (4 each).
  static constexpr size_t kWorkersMax = 1024;
  // Ended workers that nobody acknowledged; beyond it new ones are refused.
  static constexpr size_t kExitsMax = 8192;

  // `first_agent_grace`: how long to wait for the first agent.
  KeeperState(absl::Duration first_agent_grace, Monotonic now);

  std::vector<KeeperAction> Step(const KeeperStateEvent& event, Monotonic now);
  // When TimePassed should be given at the latest.
  Monotonic NextDeadline() const;

  // The driver's answer to StartWorkerProcess, within the action: the process was forked.
  void SetProcess(const ActorLife& actor, int64_t pid);

  size_t workers_living() const;
  bool ending() const { return ending_; }

 private:
  enum class Phase { kStarting, kRunning, kEnding, kEnded };
  struct Worker {
    Phase phase = Phase::kStarting;
    int64_t pid = 0;
    absl::Status start_status;
    bool killed_by_troupe = false;
    v1::ExitCause cause;            // When ended.
    uint64_t spawn_request_id = 0;  // Not answered yet; 0: answered.
  };
  using Actions = std::vector<KeeperAction>;

  void On(const AgentConnected&, Monotonic, Actions&);
  void On(const AgentLost&, Monotonic, Actions&);
  void On(const AgentRequest&, Monotonic, Actions&);
  void On(const ProgramExecuted&, Monotonic, Actions&);
  void On(const ProcessExited&, Monotonic, Actions&);
  void On(const TreeGone&, Monotonic, Actions&);
  void On(const TerminationRequested&, Monotonic, Actions&);
  void On(const TimePassed&, Monotonic, Actions&);

  void OnHello(uint64_t request_id, const v1::KeeperHello& hello, Actions& actions);
  void OnSpawn(uint64_t request_id, const v1::KeeperSpawn& spawn, Actions& actions);
  void OnSignal(uint64_t request_id, const v1::KeeperSignal& signal, Actions& actions);
  void SendInventory(uint64_t request_id, Actions& actions) const;
  void EndEverything(Actions& actions);
  void EndKeeperIfEmpty(Actions& actions);
  void Send(v1::KeeperEvent event, std::vector<ActorLife> pidfds, Actions& actions) const;
  void SendDone(uint64_t request_id, const absl::Status& status, Actions& actions) const;
  void SendSpawned(uint64_t request_id, const ActorLife& actor, const Worker& worker, Actions& actions) const;
  v1::KeeperExited ExitedOf(const ActorLife& actor, const Worker& worker) const;

  std::map<ActorLife, Worker> workers_;
  bool agent_connected_ = false;
  bool agent_greeted_ = false;  // It has had its inventory.
  absl::Duration agent_loss_grace_;
  Monotonic agent_deadline_;  // Infinite while an agent is connected.
  bool ending_ = false;
  uint64_t shutdown_request_id_ = 0;
};

}  // namespace troupe::keeper
