// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/keeper_state.h"

#include <signal.h>

#include <algorithm>

#include "runtime/base/status.h"

namespace troupe::keeper {
namespace {

// pidfds in one inventory packet, and exits in one: both far below a packet's limits.
constexpr int kInventoryWorkersMax = 64;
constexpr int kInventoryExitsMax = 128;

v1::ErrorStatus ToProto(const absl::Status& status) {
  v1::ErrorStatus proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(MessageOf(status));
  return proto;
}

// Whether a process that ended by this signal was ended on purpose.
bool Ends(int signal) { return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGQUIT; }

}  // namespace

KeeperState::KeeperState(absl::Duration first_agent_grace, Monotonic now)
    : agent_loss_grace_(first_agent_grace), agent_deadline_(now + first_agent_grace) {}

std::vector<KeeperAction> KeeperState::Step(const KeeperStateEvent& event, Monotonic now) {
  Actions actions;
  std::visit([&](const auto& e) { On(e, now, actions); }, event);
  return actions;
}

Monotonic KeeperState::NextDeadline() const { return ending_ ? Monotonic::Infinite() : agent_deadline_; }

void KeeperState::SetProcess(const ActorLife& actor, int64_t pid) { workers_.at(actor).pid = pid; }

size_t KeeperState::workers_living() const {
  return std::count_if(workers_.begin(), workers_.end(), [](const auto& w) { return w.second.phase != Phase::kEnded; });
}

void KeeperState::On(const AgentConnected&, Monotonic, Actions&) {
  agent_connected_ = true;
  agent_greeted_ = false;
  agent_deadline_ = Monotonic::Infinite();
}

void KeeperState::On(const AgentLost&, Monotonic now, Actions& actions) {
  agent_connected_ = agent_greeted_ = false;
  shutdown_request_id_ = 0;
  for (auto& [actor, worker] : workers_) worker.spawn_request_id = 0;
  agent_deadline_ = now + agent_loss_grace_;
  On(TimePassed(), now, actions);
}

void KeeperState::On(const AgentRequest& event, Monotonic, Actions& actions) {
  const v1::KeeperRequest& request = event.request;
  uint64_t id = request.request_id();
  if (request.has_hello()) return OnHello(id, request.hello(), actions);
  if (!agent_greeted_) return SendDone(id, absl::FailedPreconditionError("the first request must be hello"), actions);
  switch (request.request_case()) {
    case v1::KeeperRequest::kSpawn:
      return OnSpawn(id, request.spawn(), actions);
    case v1::KeeperRequest::kSignal:
      return OnSignal(id, request.signal(), actions);
    case v1::KeeperRequest::kAcknowledgeExit: {
      auto it = workers_.find(ActorLife::FromProto(request.acknowledge_exit().actor()));
      if (it != workers_.end() && it->second.phase == Phase::kEnded) workers_.erase(it);
      return SendDone(id, absl::OkStatus(), actions);
    }
    case v1::KeeperRequest::kShutdown:
      shutdown_request_id_ = id;
      return EndEverything(actions);
    default:
      return SendDone(id, absl::UnimplementedError("this keeper does not know the request"), actions);
  }
}

void KeeperState::OnHello(uint64_t request_id, const v1::KeeperHello& hello, Actions& actions) {
  if (hello.protocol_version() != kKeeperProtocolVersion) {
    return SendDone(request_id,
                    absl::FailedPreconditionError(
                        "the keeper speaks version " + std::to_string(kKeeperProtocolVersion) +
                        " of its protocol, the agent version " + std::to_string(hello.protocol_version())),
                    actions);
  }
  agent_loss_grace_ = absl::Milliseconds(hello.agent_loss_grace_ms());
  agent_greeted_ = true;
  SendInventory(request_id, actions);
}

void KeeperState::SendInventory(uint64_t request_id, Actions& actions) const {
  std::vector<SendToAgent> packets(1);
  auto packet = [&](int workers, int exits) -> v1::KeeperInventory* {
    v1::KeeperInventory* last = packets.back().event.mutable_inventory();
    if (last->workers_size() + workers <= kInventoryWorkersMax && last->exits_size() + exits <= kInventoryExitsMax) {
      return last;
    }
    last->set_more(true);
    packets.emplace_back();
    return packets.back().event.mutable_inventory();
  };
  packets.back().event.mutable_inventory();
  for (const auto& [actor, worker] : workers_) {
    if (worker.phase == Phase::kEnded) {
      *packet(0, 1)->add_exits() = ExitedOf(actor, worker);
    } else {
      v1::KeeperWorker* entry = packet(1, 0)->add_workers();
      *entry->mutable_actor() = actor.ToProto();
      entry->set_pid(worker.pid);
      packets.back().pidfds.push_back(actor);
    }
  }
  for (SendToAgent& p : packets) {
    p.event.set_request_id(request_id);
    actions.push_back(std::move(p));
  }
}

void KeeperState::OnSpawn(uint64_t request_id, const v1::KeeperSpawn& spawn, Actions& actions) {
  ActorLife actor = ActorLife::FromProto(spawn.actor());
  auto it = workers_.find(actor);
  if (it != workers_.end()) {
    Worker& worker = it->second;
    if (worker.phase == Phase::kStarting) {
      worker.spawn_request_id = request_id;
      return;
    }
    SendSpawned(request_id, actor, worker, actions);
    if (worker.phase == Phase::kEnded) {
      v1::KeeperEvent event;
      *event.mutable_exited() = ExitedOf(actor, worker);
      Send(std::move(event), {}, actions);
    }
    return;
  }
  if (ending_) return SendDone(request_id, absl::FailedPreconditionError("the keeper is ending"), actions);
  size_t living = workers_living();
  if (living >= kWorkersMax || workers_.size() - living >= kExitsMax) {
    return SendDone(request_id,
                    absl::ResourceExhaustedError("the keeper holds " + std::to_string(living) + " workers and " +
                                                 std::to_string(workers_.size() - living) + " unacknowledged exits"),
                    actions);
  }
  workers_[actor].spawn_request_id = request_id;
  actions.push_back(StartWorkerProcess{spawn});
}

void KeeperState::OnSignal(uint64_t request_id, const v1::KeeperSignal& signal, Actions& actions) {
  ActorLife actor = ActorLife::FromProto(signal.actor());
  auto it = workers_.find(actor);
  bool living = it != workers_.end() && (it->second.phase == Phase::kStarting || it->second.phase == Phase::kRunning);
  if (signal.signal() <= 0 || signal.signal() >= NSIG) {
    return SendDone(request_id, absl::InvalidArgumentError("no signal " + std::to_string(signal.signal())), actions);
  }
  if (living) {
    if (Ends(signal.signal())) it->second.killed_by_troupe = true;
    actions.push_back(SignalTree{actor, signal.signal()});
  }
  SendDone(request_id, absl::OkStatus(), actions);
}

void KeeperState::On(const ProgramExecuted& event, Monotonic, Actions& actions) {
  auto it = workers_.find(event.actor);
  if (it == workers_.end() || it->second.phase != Phase::kStarting) return;
  Worker& worker = it->second;
  worker.start_status = event.status;
  worker.phase = event.status.ok() ? Phase::kRunning : Phase::kEnding;
  if (worker.spawn_request_id != 0) {
    SendSpawned(worker.spawn_request_id, event.actor, worker, actions);
    worker.spawn_request_id = 0;
  }
}

void KeeperState::On(const ProcessExited& event, Monotonic, Actions&) {
  auto it = workers_.find(event.actor);
  if (it != workers_.end() && it->second.phase != Phase::kEnded) it->second.phase = Phase::kEnding;
}

void KeeperState::On(const TreeGone& event, Monotonic, Actions& actions) {
  auto it = workers_.find(event.actor);
  if (it == workers_.end() || it->second.phase == Phase::kEnded) return;
  Worker& worker = it->second;
  worker.phase = Phase::kEnded;
  ExitEvidence evidence = event.evidence;
  evidence.killed_by_troupe = worker.killed_by_troupe;
  worker.cause = CauseOf(evidence);
  if (!worker.start_status.ok()) {
    worker.cause.set_kind(v1::ExitCause::START_FAILED);
    worker.cause.set_text("could not be started: " + MessageOf(worker.start_status));
    worker.cause.set_status_code(static_cast<int>(worker.start_status.code()));
  }
  v1::KeeperEvent exited;
  *exited.mutable_exited() = ExitedOf(event.actor, worker);
  Send(std::move(exited), {}, actions);
  EndKeeperIfEmpty(actions);
}

void KeeperState::On(const TerminationRequested&, Monotonic, Actions& actions) { EndEverything(actions); }

void KeeperState::On(const TimePassed&, Monotonic now, Actions& actions) {
  if (!agent_connected_ && !ending_ && now >= agent_deadline_) EndEverything(actions);
}

void KeeperState::EndEverything(Actions& actions) {
  ending_ = true;
  for (auto& [actor, worker] : workers_) {
    if (worker.phase != Phase::kStarting && worker.phase != Phase::kRunning) continue;
    worker.killed_by_troupe = true;
    actions.push_back(SignalTree{actor, SIGKILL});
  }
  EndKeeperIfEmpty(actions);
}

void KeeperState::EndKeeperIfEmpty(Actions& actions) {
  if (!ending_ || workers_living() > 0) return;
  if (shutdown_request_id_ != 0) SendDone(shutdown_request_id_, absl::OkStatus(), actions);
  actions.push_back(EndKeeper{});
}

void KeeperState::Send(v1::KeeperEvent event, std::vector<ActorLife> pidfds, Actions& actions) const {
  if (agent_greeted_) actions.push_back(SendToAgent{std::move(event), std::move(pidfds)});
}

void KeeperState::SendDone(uint64_t request_id, const absl::Status& status, Actions& actions) const {
  SendToAgent send;
  send.event.set_request_id(request_id);
  *send.event.mutable_done()->mutable_error() = ToProto(status);
  actions.push_back(std::move(send));
}

void KeeperState::SendSpawned(uint64_t request_id, const ActorLife& actor, const Worker& worker,
                              Actions& actions) const {
  v1::KeeperEvent event;
  event.set_request_id(request_id);
  *event.mutable_spawned()->mutable_actor() = actor.ToProto();
  event.mutable_spawned()->set_pid(worker.pid);
  *event.mutable_spawned()->mutable_error() = ToProto(worker.start_status);
  bool lives = worker.start_status.ok() && worker.phase != Phase::kEnded;
  Send(std::move(event), lives ? std::vector<ActorLife>{actor} : std::vector<ActorLife>(), actions);
}

v1::KeeperExited KeeperState::ExitedOf(const ActorLife& actor, const Worker& worker) const {
  v1::KeeperExited exited;
  *exited.mutable_actor() = actor.ToProto();
  *exited.mutable_cause() = worker.cause;
  return exited;
}

}  // namespace troupe::keeper
