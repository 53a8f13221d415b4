// SPDX-License-Identifier: Apache-2.0
// AgentState: what a node agent decides, as a state machine without IO: Step(event, now) -> actions. DESIGN.md has the
// picture. It stands between three peers, each of which may go and come back: the head (which decides what runs), the
// keeper (which runs it and knows what has ended) and the workers' own sessions.
//
// Invariants:
//   AGT-1: one life of an actor at a time; the next one is started when the one before it has exited.
//   AGT-2: nothing is done for a head of another term than the one that welcomed this node, nor for one of an older
//   term than the highest that was seen; the term is kept before it counts. AGT-3: a worker's exit is told when its
//   whole tree is gone, and kept until the head acknowledges it. AGT-4: time in which the agent itself did not run
//   counts against no worker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"
#include "runtime/base/monotonic.h"
#include "troupe/v1/agent.pb.h"
#include "troupe/v1/agent_store.pb.h"
#include "troupe/v1/keeper.pb.h"
#include "troupe/v1/node.pb.h"

namespace troupe::agent {

inline constexpr uint32_t kNodeProtocolVersion = 2;
using WorkerSessionId = uint64_t;  // Of a worker's stream; chosen by the driver, never used again, never 0.

// ---- Events ----
// The keeper answered hello: everything it has. What it does not have is gone, its tree too.
struct KeeperConnected {
  std::vector<v1::KeeperWorker> workers;
  std::vector<v1::KeeperExited> exits;
};
// The connection broke. When it comes back (or a new keeper) KeeperConnected follows; if the keeper has died, only
// after every process of its workers has ended.
struct KeeperDisconnected {};
struct WorkerSpawned {
  ActorLife actor;
  int64_t pid = 0;
};
// The keeper does not take the order.
struct SpawnRefused {
  ActorLife actor;
  absl::Status status;
};
struct WorkerGone {
  ActorLife actor;
  v1::ExitCause cause;
};
struct HeadConnected {  // A stream was opened; whether the head is there shows in its first message.
  uint64_t stream = 0;  // Number of the stream, for the driver.
};
struct HeadDisconnected {
  absl::Status status;
};
struct HeadSaid {
  v1::HeadToAgent message;
};
struct WorkerSaid {
  WorkerSessionId session = 0;
  v1::WorkerToAgent message;
};
struct WorkerHungUp {
  WorkerSessionId session = 0;
};
// Ends every worker, then everything. Repeated: the shorter grace counts.
struct ShutdownRequested {
  absl::Duration grace;
};
// What KeepIdentity came to.
struct IdentityKept {
  absl::Status status;
};
// A device of the registration is better or worse than it was.
struct DeviceHealthSeen {
  int index = 0;
  v1::DeviceHealth health;
};
struct TimePassed {};
using AgentEvent = std::variant<KeeperConnected, KeeperDisconnected, WorkerSpawned, SpawnRefused, WorkerGone,
                                HeadConnected, HeadDisconnected, HeadSaid, WorkerSaid, WorkerHungUp, ShutdownRequested,
                                IdentityKept, DeviceHealthSeen, TimePassed>;

// ---- Actions, to be done in order ----
struct KeepIdentity {  // The last of its step; IdentityKept follows before anything else.
  v1::AgentIdentity identity;
};
struct KeepAssignment {  // Durable before SpawnWorker of the same actor; when that fails SpawnRefused follows instead.
  v1::StartWorker start;
};
struct ForgetAssignment {
  ActorLife actor;
};
struct SpawnWorker {
  v1::StartWorker start;
};
struct SignalWorker {
  ActorLife actor;
  int signal = 0;
};
struct AcknowledgeToKeeper {
  ActorLife actor;
};
struct TellHead {
  v1::AgentToHead message;
};
struct HangUpHead {
  std::string reason;
};
struct SetHeartbeat {  // From now on, until the stream ends.
  absl::Duration interval;
  uint64_t node_incarnation = 0;
};
struct TellWorker {
  WorkerSessionId session = 0;
  v1::AgentToWorker message;
};
struct HangUpWorker {
  WorkerSessionId session = 0;
  absl::Status status;
};
// Every process of its tree is gone: what it held on this node can go.
struct ReleaseWorker {
  ActorLife actor;
  std::string cause;  // A sentence, for errors about what it had.
};
struct Say {  // For the agent's log.
  std::string text;
};
struct Finished {};  // Of a shutdown: every worker has ended.
using AgentAction =
    std::variant<KeepIdentity, KeepAssignment, ForgetAssignment, SpawnWorker, SignalWorker, AcknowledgeToKeeper,
                 TellHead, HangUpHead, SetHeartbeat, TellWorker, HangUpWorker, ReleaseWorker, Say, Finished>;

struct AgentStateOptions {
  // Without workers, unacknowledged_exits, incarnation and term.
  v1::RegisterNode registration;
  // What every worker is told, without what concerns it alone; start.head_endpoint counts where the head names none.
  v1::WorkerAssignment assignment;
  // Until a head says otherwise.
  absl::Duration head_loss_grace = absl::Hours(24);
};

class AgentState {
 public:
  // A worker that has not said hello for that long (or for its hang_timeout, if that is longer) hangs.
  static constexpr absl::Duration kHelloTimeout = absl::Seconds(60);
  static constexpr absl::Duration kHangTimeoutDefault = absl::Seconds(30);
  // Steps come at least this often (the driver ticks); a longer gap means that the agent was stopped.
  static constexpr absl::Duration kTickInterval = absl::Milliseconds(250);
  static constexpr absl::Duration kStall = absl::Seconds(2);
  // How long a shutdown waits for the head to acknowledge the last exits.
  static constexpr absl::Duration kLastAcknowledgements = absl::Seconds(2);
  // When the agent ends workers of its own accord.
  static constexpr absl::Duration kStopGrace = absl::Seconds(10);
  // Workers and unacknowledged exits.
  static constexpr size_t kWorkersMax = 4096;

  // `identity` and `assigned`: what a former agent kept, empty if there was none.
  AgentState(AgentStateOptions options, v1::AgentIdentity identity, const std::vector<v1::AssignedWorker>& assigned,
             Monotonic now);

  std::vector<AgentAction> Step(const AgentEvent& event, Monotonic now);

  bool registered() const { return welcomed_; }
  const v1::AgentIdentity& identity() const { return identity_; }
  size_t workers_living() const;

 private:
  enum class Phase {
    kWaiting,   // For the keeper, or for the life before it to end.
    kSpawning,  // Ordered from the keeper.
    kRunning,
    kExited,  // Not acknowledged by the head yet.
  };
  struct Worker {
    Phase phase = Phase::kWaiting;
    v1::StartWorker start;
    bool assigned = false;  // `start` is known.
    int64_t pid = 0;
    bool ready = false;
    std::string endpoint;
    std::string remote_endpoint;
    WorkerSessionId session = 0;  // 0: not connected.
    bool greeted = false;         // It has said hello to this agent.
    Monotonic heard;
    bool hung = false;
    std::optional<v1::ErrorStatus> start_error;
    std::optional<std::string> ended;  // Why its actor has ended, in its own words.
    bool stopping = false;
    std::string stop_reason;
    Monotonic kill_at = Monotonic::Infinite();
    bool held_by_keeper = false;  // The exit.
    v1::ExitCause cause;
  };
  using Actions = std::vector<AgentAction>;

  // agent_state.cc: keeper, workers, time.
  void On(const KeeperConnected&);
  void On(const KeeperDisconnected&);
  void On(const WorkerSpawned&);
  void On(const SpawnRefused&);
  void On(const WorkerGone&);
  void On(const WorkerSaid&);
  void On(const WorkerHungUp&);
  void On(const ShutdownRequested&);
  void On(const TimePassed&);
  void On(const IdentityKept&);
  void On(const DeviceHealthSeen&);
  // agent_state_head.cc: the head's orders.
  void On(const HeadConnected&);
  void On(const HeadDisconnected&);
  void On(const HeadSaid&);
  void OnWelcome(const v1::WelcomeNode& welcome);
  void Join(const v1::WelcomeNode& welcome);
  void OnStart(const v1::StartWorker& start);
  void OnStop(const v1::StopWorker& stop);
  void OnAcknowledge(const ActorLife& actor);
  bool TermIsCurrent(uint64_t term);
  void Register();
  void TellStarted(const ActorLife& actor, const Worker& worker);
  void TellReady(const ActorLife& actor, const Worker& worker);
  void TellExited(const ActorLife& actor, const Worker& worker);
  void TellDevice(int index);
  absl::Status CheckDevicesOf(const v1::StartWorker& start) const;

  void OnHello(WorkerSessionId session, const v1::WorkerHello& hello);
  void SpawnWaiting();
  void Stop(const ActorLife& actor, Worker& worker, absl::Duration grace, const std::string& reason);
  void Kill(const ActorLife& actor, Worker& worker);
  void StopEverything(absl::Duration grace, const std::string& reason);
  void SetExited(const ActorLife& actor, Worker& worker, v1::ExitCause cause, bool held_by_keeper);
  void CheckHang(const ActorLife& actor, Worker& worker);
  void FinishShutdown();
  void Do(AgentAction action) { actions_.push_back(std::move(action)); }

  const AgentStateOptions options_;
  std::vector<v1::Device> devices_;  // As they are now.
  std::set<int> devices_untold_;     // Have changed since the registration was sent.
  v1::AgentIdentity identity_;
  std::map<ActorLife, Worker> workers_;
  std::map<WorkerSessionId, ActorLife> sessions_;
  bool keeper_connected_ = false;
  bool keeper_known_ = false;  // It has been connected once: the inventory is complete.
  bool head_connected_ = false;
  bool register_sent_ = false;
  bool welcomed_ = false;                   // On this stream.
  std::optional<v1::WelcomeNode> welcome_;  // Counts when what it says is kept.
  Monotonic head_lost_at_;                  // Since when there is no head that has welcomed this node.
  bool head_loss_handled_ = false;
  std::string head_error_;  // Said last.
  bool shutting_down_ = false;
  bool finished_ = false;
  Monotonic finish_at_ = Monotonic::Infinite();
  Monotonic now_;
  Actions actions_;  // Of the step that runs.
};

}  // namespace troupe::agent
