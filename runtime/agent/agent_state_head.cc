// SPDX-License-Identifier: Apache-2.0
// AgentState: the head's side. Registration, terms, orders to start and stop, exits until they are acknowledged.
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "runtime/agent/agent_state.h"
#include "runtime/base/status.h"

namespace troupe::agent {
namespace {

v1::AgentIdentity IdentityBy(const v1::WelcomeNode& welcome, v1::AgentIdentity identity) {
  identity.set_highest_term(welcome.term());
  identity.set_node_incarnation(welcome.node_incarnation());
  identity.set_head_loss_grace_ms(welcome.head_loss_grace_ms());
  return identity;
}

}  // namespace

void AgentState::On(const HeadConnected&) {
  head_connected_ = true;
  register_sent_ = welcomed_ = false;
  Register();
}

void AgentState::On(const HeadDisconnected& event) {
  if (welcomed_) {
    head_lost_at_ = now_;
    head_loss_handled_ = false;
  }
  // Said once, not at each attempt.
  std::string error = (welcomed_ ? "lost the head: " : "no head: ") + StatusText(event.status);
  if (error != head_error_) Do(Say{error});
  head_error_ = error;
  head_connected_ = register_sent_ = welcomed_ = false;
  FinishShutdown();
}

// Not before the keeper has told what runs: the inventory must be whole.
void AgentState::Register() {
  if (!head_connected_ || !keeper_known_ || register_sent_ || shutting_down_) return;
  register_sent_ = true;
  TellHead tell;
  v1::RegisterNode& node = *tell.message.mutable_register_node();
  node = options_.registration;
  node.set_node_id(identity_.node_id());
  node.set_node_incarnation(identity_.node_incarnation());
  node.set_highest_term(identity_.highest_term());
  node.set_protocol_version(kNodeProtocolVersion);
  node.set_sequence(now_.nanoseconds());
  *node.mutable_devices() = {devices_.begin(), devices_.end()};
  devices_untold_.clear();
  for (const auto& [actor, worker] : workers_) {
    if (worker.phase == Phase::kExited) {
      v1::WorkerExited* exited = node.add_unacknowledged_exits();
      *exited->mutable_actor() = actor.ToProto();
      *exited->mutable_cause() = worker.cause;
    } else {
      v1::RunningWorker* running = node.add_workers();
      *running->mutable_actor() = actor.ToProto();
      running->set_pid(worker.pid);
      running->set_ready(worker.ready);
      running->set_endpoint(worker.endpoint);
      running->set_remote_endpoint(worker.remote_endpoint);
    }
  }
  Do(std::move(tell));
}

void AgentState::On(const HeadSaid& event) {
  if (!register_sent_) return;  // Of a stream that has ended.
  const v1::HeadToAgent& message = event.message;
  if (message.has_welcome_node()) return OnWelcome(message.welcome_node());
  if (!welcomed_) return Do(HangUpHead{"the head's first message was no welcome"});
  switch (message.message_case()) {
    case v1::HeadToAgent::kStartWorker:
      if (TermIsCurrent(message.start_worker().term())) OnStart(message.start_worker());
      return;
    case v1::HeadToAgent::kStopWorker:
      if (TermIsCurrent(message.stop_worker().term())) OnStop(message.stop_worker());
      return;
    case v1::HeadToAgent::kAcknowledgeExit:
      return OnAcknowledge(ActorLife::FromProto(message.acknowledge_exit().actor()));
    case v1::HeadToAgent::kHeartbeatReply:
      TermIsCurrent(message.heartbeat_reply().term());
      return;
    default:
      return;
  }
}

// AGT-2.
bool AgentState::TermIsCurrent(uint64_t term) {
  if (term < identity_.highest_term()) {
    Do(HangUpHead{"stale epoch: this head's term is " + std::to_string(term) + ", the node has seen " +
                  std::to_string(identity_.highest_term())});
    return false;
  }
  if (term > identity_.highest_term()) {
    Do(HangUpHead{"this head's term is " + std::to_string(term) + ", but it welcomed the node with " +
                  std::to_string(identity_.highest_term())});
    return false;
  }
  return true;
}

void AgentState::OnWelcome(const v1::WelcomeNode& welcome) {
  if (welcome.term() < identity_.highest_term()) {
    TermIsCurrent(welcome.term());
    return;
  }
  const v1::AgentIdentity identity = IdentityBy(welcome, identity_);
  if (identity.SerializeAsString() == identity_.SerializeAsString()) return Join(welcome);
  welcome_ = welcome;
  Do(KeepIdentity{identity});
}

void AgentState::On(const IdentityKept& event) {
  if (!welcome_.has_value()) return;
  const v1::WelcomeNode welcome = *std::exchange(welcome_, std::nullopt);
  // A term that is not kept must not count: without this head the node goes on as it was.
  if (!event.status.ok()) {
    return Do(HangUpHead{"what the head's welcome says cannot be kept: " + StatusText(event.status)});
  }
  Join(welcome);
}

void AgentState::Join(const v1::WelcomeNode& welcome) {
  bool new_incarnation = welcome.node_incarnation() != identity_.node_incarnation();
  identity_ = IdentityBy(welcome, identity_);
  welcomed_ = true;
  Do(SetHeartbeat{absl::Milliseconds(welcome.heartbeat_interval_ms()), welcome.node_incarnation()});
  Do(Say{"registered with the head: term " + std::to_string(welcome.term()) + ", node incarnation " +
         std::to_string(welcome.node_incarnation())});
  // What belongs to an ended incarnation of this node ends now; the head grants nothing before it has seen the exits.
  if (new_incarnation) StopEverything(absl::ZeroDuration(), "its node's incarnation ended");
  for (const v1::ActorIncarnation& unknown : welcome.unknown_workers()) {
    auto it = workers_.find(ActorLife::FromProto(unknown));
    if (it != workers_.end()) Stop(it->first, it->second, absl::ZeroDuration(), "the head does not know it any more");
  }
  // What became ready or ended after the registration was sent is in nobody's hands yet; a repeat does no harm.
  for (const auto& [actor, worker] : workers_) {
    if (worker.phase == Phase::kExited) {
      TellExited(actor, worker);
    } else {
      TellReady(actor, worker);
    }
  }
  for (int index : std::exchange(devices_untold_, {})) TellDevice(index);
}

void AgentState::On(const DeviceHealthSeen& event) {
  if (event.index < 0 || static_cast<size_t>(event.index) >= devices_.size()) return;
  v1::Device& device = devices_[static_cast<size_t>(event.index)];
  *device.mutable_health() = event.health;
  std::string state = v1::DeviceHealth::State_Name(event.health.state());
  std::transform(state.begin(), state.end(), state.begin(), [](unsigned char c) { return std::tolower(c); });
  Do(Say{"device " + std::to_string(event.index) + " (" + device.kind() + ") is " + state +
         (event.health.reason().empty() ? "" : ": " + event.health.reason())});
  if (welcomed_) return TellDevice(event.index);
  devices_untold_.insert(event.index);
}

void AgentState::TellDevice(int index) {
  TellHead tell;
  *tell.message.mutable_device_changed()->mutable_device() = devices_[static_cast<size_t>(index)];
  Do(std::move(tell));
}

// A node that came back with fewer devices may be asked to go on with those that it had.
absl::Status AgentState::CheckDevicesOf(const v1::StartWorker& start) const {
  const int devices = options_.registration.resources().devices();
  for (int index : start.device_indices()) {
    if (index >= 0 && index < devices) continue;
    return absl::FailedPreconditionError("it was given device " + std::to_string(index) + ", but its node has " +
                                         std::to_string(devices) + " now");
  }
  return absl::OkStatus();
}

void AgentState::OnStart(const v1::StartWorker& start) {
  ActorLife actor = ActorLife::FromProto(start.actor());
  auto known = workers_.find(actor);
  if (known != workers_.end()) {
    TellStarted(actor, known->second);
    TellReady(actor, known->second);
    TellExited(actor, known->second);
    return;
  }
  v1::ExitCause refused;
  refused.set_kind(v1::ExitCause::START_FAILED);
  for (const auto& [other, worker] : workers_) {
    if (other.path == actor.path && other.incarnation > actor.incarnation) {
      refused.set_text("stale epoch: this node knows incarnation " + std::to_string(other.incarnation));
    }
  }
  if (absl::Status devices = CheckDevicesOf(start); !devices.ok()) refused.set_text(MessageOf(devices));
  if (shutting_down_) refused.set_text("its node is shut down");
  if (workers_.size() >= kWorkersMax) refused.set_text("the node holds " + std::to_string(kWorkersMax) + " workers");
  Worker& worker = workers_[actor];
  worker.start = start;
  worker.assigned = true;
  worker.heard = now_;
  if (!refused.text().empty()) return SetExited(actor, worker, refused, false);
  Do(KeepAssignment{start});
  // AGT-1: what is left of an earlier life ends first.
  for (auto& [other, earlier] : workers_) {
    if (other.path != actor.path || other == actor || earlier.phase == Phase::kExited) continue;
    Stop(other, earlier, absl::ZeroDuration(), "its successor was granted");
  }
  SpawnWaiting();
}

void AgentState::OnStop(const v1::StopWorker& stop) {
  auto it = workers_.find(ActorLife::FromProto(stop.actor()));
  if (it != workers_.end()) Stop(it->first, it->second, absl::Milliseconds(stop.grace_ms()), stop.reason());
}

void AgentState::OnAcknowledge(const ActorLife& actor) {
  auto it = workers_.find(actor);
  if (it == workers_.end() || it->second.phase != Phase::kExited) return;
  if (it->second.held_by_keeper) Do(AcknowledgeToKeeper{actor});
  if (it->second.assigned) Do(ForgetAssignment{actor});
  workers_.erase(it);
  FinishShutdown();
}

void AgentState::TellStarted(const ActorLife& actor, const Worker& worker) {
  if (!welcomed_ || worker.phase != Phase::kRunning) return;
  TellHead tell;
  *tell.message.mutable_worker_started()->mutable_actor() = actor.ToProto();
  tell.message.mutable_worker_started()->set_pid(worker.pid);
  Do(std::move(tell));
}

void AgentState::TellReady(const ActorLife& actor, const Worker& worker) {
  if (!welcomed_ || !worker.ready || worker.phase != Phase::kRunning) return;
  TellHead tell;
  v1::ActorAddress& address = *tell.message.mutable_worker_ready()->mutable_address();
  *address.mutable_actor() = actor.ToProto();
  address.set_node_id(identity_.node_id());
  address.set_endpoint(worker.endpoint);
  address.set_remote_endpoint(worker.remote_endpoint);
  address.set_pid(worker.pid);
  Do(std::move(tell));
}

// AGT-3.
void AgentState::TellExited(const ActorLife& actor, const Worker& worker) {
  if (!welcomed_ || worker.phase != Phase::kExited) return;
  TellHead tell;
  *tell.message.mutable_worker_exited()->mutable_actor() = actor.ToProto();
  *tell.message.mutable_worker_exited()->mutable_cause() = worker.cause;
  Do(std::move(tell));
}

}  // namespace troupe::agent
