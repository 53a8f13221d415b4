// SPDX-License-Identifier: Apache-2.0
// AgentState: the keeper, the workers and time. The head's side is in agent_state_head.cc.
#include "runtime/agent/agent_state.h"

#include <signal.h>

#include <algorithm>

#include "runtime/base/status.h"

namespace troupe::agent {
namespace {

v1::ExitCause Cause(v1::ExitCause::Kind kind, const std::string& text) {
  v1::ExitCause cause;
  cause.set_kind(kind);
  cause.set_text(text);
  return cause;
}

}  // namespace

AgentState::AgentState(AgentStateOptions options, v1::AgentIdentity identity,
                       const std::vector<v1::AssignedWorker>& assigned, Monotonic now)
    : options_(std::move(options)),
      devices_(options_.registration.devices().begin(), options_.registration.devices().end()),
      identity_(std::move(identity)),
      head_lost_at_(now),
      now_(now) {
  for (const v1::AssignedWorker& a : assigned) {
    Worker& worker = workers_[ActorLife::FromProto(a.start().actor())];
    worker.start = a.start();
    worker.assigned = true;
    worker.phase = Phase::kSpawning;  // Until the keeper says what became of it.
    worker.heard = now;
  }
}

std::vector<AgentAction> AgentState::Step(const AgentEvent& event, Monotonic now) {
  Monotonic before = now_;
  now_ = now;
  if (now - before > kStall) {  // AGT-4
    for (auto& [actor, worker] : workers_) worker.heard = worker.heard + (now - before);
    if (!welcomed_) head_lost_at_ = head_lost_at_ + (now - before);
  }
  std::visit([&](const auto& e) { On(e); }, event);
  return std::exchange(actions_, {});
}

size_t AgentState::workers_living() const {
  return std::count_if(workers_.begin(), workers_.end(),
                       [](const auto& w) { return w.second.phase != Phase::kExited; });
}

// ---- The keeper ----

void AgentState::On(const KeeperConnected& event) {
  keeper_connected_ = keeper_known_ = true;
  std::map<ActorLife, int64_t> running;
  for (const v1::KeeperWorker& w : event.workers) running[ActorLife::FromProto(w.actor())] = w.pid();
  for (const auto& [actor, pid] : running) {
    auto [it, is_new] = workers_.try_emplace(actor);
    Worker& worker = it->second;
    if (is_new) worker.heard = now_;
    if (worker.phase == Phase::kExited) continue;
    worker.phase = Phase::kRunning;
    worker.pid = pid;
    // An order to kill may have been lost with the connection.
    if (worker.stopping && worker.kill_at <= now_) Do(SignalWorker{actor, SIGKILL});
  }
  for (const v1::KeeperExited& exited : event.exits) {
    ActorLife actor = ActorLife::FromProto(exited.actor());
    Worker& worker = workers_[actor];
    if (worker.phase == Phase::kExited) {
      worker.held_by_keeper = true;
    } else {
      SetExited(actor, worker, exited.cause(), true);
    }
  }
  for (auto& [actor, worker] : workers_) {
    bool ordered = worker.phase == Phase::kSpawning || worker.phase == Phase::kRunning;
    if (!ordered || running.count(actor) > 0) continue;
    SetExited(actor, worker, Cause(v1::ExitCause::NODE_LOST, "its node's keeper ended, and its workers with it"),
              false);
  }
  SpawnWaiting();
  Register();
  FinishShutdown();
}

void AgentState::On(const KeeperDisconnected&) { keeper_connected_ = false; }

void AgentState::On(const WorkerSpawned& event) {
  auto it = workers_.find(event.actor);
  if (it == workers_.end() || it->second.phase == Phase::kExited) return;
  Worker& worker = it->second;
  worker.phase = Phase::kRunning;
  worker.pid = event.pid;
  worker.heard = std::max(worker.heard, now_);
  TellStarted(event.actor, worker);
  TellReady(event.actor, worker);  // It may have been quicker than the keeper's word.
}

void AgentState::On(const SpawnRefused& event) {
  auto it = workers_.find(event.actor);
  if (it == workers_.end() || it->second.phase == Phase::kExited) return;
  SetExited(event.actor, it->second, Cause(v1::ExitCause::START_FAILED, MessageOf(event.status)), false);
  SpawnWaiting();
  FinishShutdown();
}

void AgentState::On(const WorkerGone& event) {
  Worker& worker = workers_[event.actor];
  if (worker.phase == Phase::kExited) return;
  SetExited(event.actor, worker, event.cause, true);
  SpawnWaiting();
  FinishShutdown();
}

void AgentState::SetExited(const ActorLife& actor, Worker& worker, v1::ExitCause cause, bool held_by_keeper) {
  if (worker.hung) {
    cause.set_kind(v1::ExitCause::HUNG);
    cause.set_text("killed: " + worker.stop_reason);
  } else if (worker.start_error.has_value()) {
    cause.set_kind(v1::ExitCause::START_FAILED);
    cause.set_text(worker.start_error->message());
    cause.set_status_code(worker.start_error->code());
  } else if (worker.stopping && cause.kind() != v1::ExitCause::START_FAILED) {
    cause.set_text("stopped (" + worker.stop_reason + "): " + cause.text());
    cause.set_kind(v1::ExitCause::STOPPED);
  } else if (worker.ended.has_value() && cause.kind() == v1::ExitCause::EXITED) {
    cause.set_text(*worker.ended);
  }
  worker.phase = Phase::kExited;
  worker.held_by_keeper = held_by_keeper;
  worker.cause = std::move(cause);
  worker.kill_at = Monotonic::Infinite();
  if (worker.session != 0) {
    sessions_.erase(worker.session);
    Do(HangUpWorker{worker.session, absl::NotFoundError("this worker has ended")});
    worker.session = 0;
  }
  Do(ReleaseWorker{actor, worker.cause.text()});
  TellExited(actor, worker);
}

void AgentState::SpawnWaiting() {
  if (!keeper_connected_) return;
  for (auto& [actor, worker] : workers_) {
    if (worker.phase != Phase::kWaiting) continue;
    if (worker.stopping) {
      SetExited(actor, worker, Cause(v1::ExitCause::STOPPED, "before it was started"), false);
      continue;
    }
    // AGT-1. Lives are ordered by path, then incarnation: those of one path are neighbours.
    bool earlier_lives = std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
      return other.first.path == actor.path && other.first < actor && other.second.phase != Phase::kExited;
    });
    if (earlier_lives) continue;
    worker.phase = Phase::kSpawning;
    worker.heard = now_;
    Do(SpawnWorker{worker.start});
  }
}

// ---- Workers ----

void AgentState::On(const WorkerSaid& event) {
  if (event.message.has_hello()) return OnHello(event.session, event.message.hello());
  auto session = sessions_.find(event.session);
  if (session == sessions_.end()) {
    return Do(HangUpWorker{event.session, absl::FailedPreconditionError("the first message must be hello")});
  }
  Worker& worker = workers_.at(session->second);
  worker.heard = now_;
  if (event.message.has_ready()) {
    worker.ready = true;
    worker.endpoint = event.message.ready().endpoint();
    worker.remote_endpoint = event.message.ready().remote_endpoint();
    TellReady(session->second, worker);
  } else if (event.message.has_start_failed()) {
    worker.start_error = event.message.start_failed().error();
  } else if (event.message.has_ended()) {
    worker.ended = event.message.ended().text();
  }
}

void AgentState::OnHello(WorkerSessionId session, const v1::WorkerHello& hello) {
  ActorLife actor = ActorLife::FromProto(hello.actor());
  auto it = workers_.find(actor);
  bool known = it != workers_.end() && it->second.phase != Phase::kExited;
  if (!known && !keeper_known_) {
    // A former agent's worker may come before the keeper has told of it.
    return Do(HangUpWorker{session, absl::UnavailableError("the agent does not know its workers yet")});
  }
  if (!known || (!hello.reconnect() && !it->second.assigned)) {
    return Do(HangUpWorker{session, absl::NotFoundError("this node has no worker " + actor.ToString())});
  }
  if (sessions_.count(session) > 0) {
    return Do(HangUpWorker{session, absl::FailedPreconditionError("a session says hello once")});
  }
  Worker& worker = it->second;
  if (worker.session != 0) {
    sessions_.erase(worker.session);
    Do(HangUpWorker{worker.session, absl::AbortedError("the worker has a newer session")});
  }
  worker.session = session;
  sessions_[session] = actor;
  worker.greeted = true;
  worker.heard = now_;
  if (!hello.reconnect()) {
    TellWorker assignment{session, {}};
    v1::WorkerAssignment& a = *assignment.message.mutable_assignment();
    a = options_.assignment;
    *a.mutable_start() = worker.start;
    if (a.start().head_endpoint().empty()) {
      a.mutable_start()->set_head_endpoint(options_.assignment.start().head_endpoint());
    }
    a.set_node_id(identity_.node_id());
    a.set_node_incarnation(identity_.node_incarnation());
    Do(std::move(assignment));
  } else if (hello.ready()) {
    bool news = !worker.ready || worker.endpoint != hello.endpoint();
    worker.ready = true;
    worker.endpoint = hello.endpoint();
    worker.remote_endpoint = hello.remote_endpoint();
    if (news) TellReady(actor, worker);
  }
  if (worker.stopping) {
    TellWorker stop{session, {}};
    stop.message.mutable_stop()->set_reason(worker.stop_reason);
    stop.message.mutable_stop()->set_grace_ms(std::max<int64_t>(absl::ToInt64Milliseconds(worker.kill_at - now_), 0));
    Do(std::move(stop));
  }
}

void AgentState::On(const WorkerHungUp& event) {
  auto session = sessions_.find(event.session);
  if (session == sessions_.end()) return;
  workers_.at(session->second).session = 0;
  sessions_.erase(session);
}

void AgentState::Stop(const ActorLife& actor, Worker& worker, absl::Duration grace, const std::string& reason) {
  if (worker.phase == Phase::kExited) return;
  Monotonic kill_at = now_ + grace;
  bool first = !worker.stopping;
  if (first) worker.stop_reason = reason;
  worker.stopping = true;
  if (!first && kill_at >= worker.kill_at) return;
  worker.kill_at = kill_at;
  if (worker.phase == Phase::kWaiting) return SpawnWaiting();
  if (grace <= absl::ZeroDuration()) return Kill(actor, worker);
  if (worker.session != 0) {
    TellWorker stop{worker.session, {}};
    stop.message.mutable_stop()->set_reason(worker.stop_reason);
    stop.message.mutable_stop()->set_grace_ms(absl::ToInt64Milliseconds(grace));
    Do(std::move(stop));
  } else if (first && keeper_connected_ && !worker.greeted && worker.ready == false) {
    // It has never said hello and may not know how; a signal is all there is.
    Do(SignalWorker{actor, SIGTERM});
  }
}

void AgentState::Kill(const ActorLife& actor, Worker& worker) {
  worker.kill_at = now_;
  if (keeper_connected_) Do(SignalWorker{actor, SIGKILL});
}

void AgentState::StopEverything(absl::Duration grace, const std::string& reason) {
  std::vector<ActorLife> living;
  for (auto& [actor, worker] : workers_) {
    if (worker.phase != Phase::kExited) living.push_back(actor);
  }
  for (const ActorLife& actor : living) Stop(actor, workers_.at(actor), grace, reason);
}

// ---- Time and the end ----

void AgentState::On(const TimePassed&) {
  for (auto& [actor, worker] : workers_) {
    if (worker.phase != Phase::kRunning && worker.phase != Phase::kSpawning) continue;
    if (worker.stopping && now_ >= worker.kill_at) {
      if (keeper_connected_) Do(SignalWorker{actor, SIGKILL});
      worker.kill_at = now_ + absl::Seconds(1);  // Again, should the order have been lost.
    }
    CheckHang(actor, worker);
  }
  absl::Duration grace =
      identity_.highest_term() > 0 ? absl::Milliseconds(identity_.head_loss_grace_ms()) : options_.head_loss_grace;
  if (!welcomed_ && !head_loss_handled_ && now_ - head_lost_at_ >= grace) {
    head_loss_handled_ = true;
    if (workers_living() > 0) {
      Do(Say{"no head for " + absl::FormatDuration(grace) + ": ending every worker"});
      StopEverything(grace <= absl::ZeroDuration() ? absl::ZeroDuration() : kStopGrace,
                     "no head for " + absl::FormatDuration(grace));
    }
  }
  FinishShutdown();
}

void AgentState::CheckHang(const ActorLife& actor, Worker& worker) {
  if (worker.phase != Phase::kRunning || worker.stopping) return;
  absl::Duration timeout = absl::Milliseconds(worker.start.hang_timeout_ms());
  if (timeout <= absl::ZeroDuration()) timeout = kHangTimeoutDefault;
  if (!worker.greeted) timeout = std::max(timeout, kHelloTimeout);
  if (now_ - worker.heard < timeout) return;
  worker.hung = true;
  worker.stopping = true;
  worker.stop_reason =
      (worker.greeted ? "no heartbeat for " : "it did not register within ") + absl::FormatDuration(timeout);
  Do(Say{actor.ToString() + " is killed: " + worker.stop_reason});
  Kill(actor, worker);
}

void AgentState::On(const ShutdownRequested& event) {
  shutting_down_ = true;
  StopEverything(event.grace, "its node is shut down");
  FinishShutdown();
}

void AgentState::FinishShutdown() {
  if (!shutting_down_ || finished_ || workers_living() > 0) return;
  if (finish_at_.infinite()) finish_at_ = now_ + kLastAcknowledgements;
  bool acknowledged = workers_.empty() || !welcomed_;
  if (!acknowledged && now_ < finish_at_) return;
  finished_ = true;
  Do(Finished{});
}

}  // namespace troupe::agent
