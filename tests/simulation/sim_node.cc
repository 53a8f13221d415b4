// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_node.h"

#include "scheduler/core/cluster.h"

namespace troupe::simulation {

namespace {

constexpr absl::Duration kHeartbeatInterval = absl::Seconds(1);
constexpr absl::Duration kNoReply = absl::Seconds(10);

std::string SlotOf(const v1::StartWorker& start) {
  const v1::RoleSpec& role = start.role();
  std::string unit = role.colocation_group().empty() ? "role " + role.role() : "group " + role.colocation_group();
  return start.actor().id().job_id() + " " + unit + " " + std::to_string(start.actor().id().replica());
}

}  // namespace

void SimNode::Boot() {
  up_ = true;
  ++boot_;
  frozen_until_ = Monotonic();
  RestartAgent();
}

void SimNode::CrashMachine() {
  up_ = false;
  ++boot_;
  processes_.clear();
  exits_.clear();
  incarnation_ = highest_term_ = 0;
  if (link_ != nullptr) link_->Break();
  link_ = nullptr;
}

void SimNode::RestartAgent() {
  if (!up_) return;
  ++agent_;
  if (link_ != nullptr) link_->CloseByNode();
  link_ = nullptr;
  welcomed_ = false;
  Later(world_->simulator->Between(absl::Milliseconds(5), absl::Seconds(1)), [this, agent = agent_] {
    if (agent == agent_) Dial();
  });
}

void SimNode::KillKeeper() {
  if (!up_) return;
  for (auto& [life, process] : processes_) {
    if (process.alive)
      Kill(life, world_->simulator->Between(absl::Milliseconds(1), absl::Milliseconds(50)), v1::ExitCause::SIGNALED);
  }
}

void SimNode::Freeze(absl::Duration duration) { frozen_until_ = world_->simulator->now() + duration; }

void SimNode::KillSomeWorker() {
  std::vector<ActorLife> alive;
  for (auto& [life, process] : processes_) {
    if (process.alive) alive.push_back(life);
  }
  if (alive.empty()) return;
  Exit(alive[static_cast<size_t>(world_->simulator->Between(0, static_cast<int64_t>(alive.size()) - 1))],
       v1::ExitCause::SIGNALED, 9);
}

void SimNode::Later(absl::Duration delay, std::function<void()> event) {
  world_->simulator->After(delay, [this, boot = boot_, event = std::move(event)] {
    if (boot != boot_) return;
    absl::Duration frozen = frozen_until_ - world_->simulator->now();
    if (frozen > absl::ZeroDuration()) return Later(frozen, event);
    event();
  });
}

void SimNode::Dial() {
  if (!up_) return;
  auto again = [this, agent = agent_] {
    if (agent == agent_ && link_ == nullptr) Dial();
  };
  if (!world_->head->up() || cuts.to_head || cuts.to_node) {
    return Later(world_->simulator->Between(absl::Milliseconds(100), absl::Seconds(2)), again);
  }
  scheduler::SessionId id = ++world_->last_session;
  uint64_t boot = boot_;
  auto mine = [this, boot, id] { return boot == boot_ && link_ != nullptr && link_->id() == id; };
  link_ = std::make_shared<Link>(
      world_->simulator, &cuts, id,
      Link::Ends{.at_head =
                     [head = world_->head, id](v1::AgentToHead m) {
                       scheduler::FromNode event{id, {}, {}};
                       *event.messages.add_messages() = std::move(m);
                       head->Deliver(std::move(event));
                     },
                 .at_node =
                     [this, mine](const v1::HeadToAgent& m) {
                       Later(absl::ZeroDuration(), [this, mine, m] {
                         if (mine()) Arrive(m);
                       });
                     },
                 .closed_at_head = [head = world_->head, id] { head->LinkClosed(id); },
                 .closed_at_node =
                     [this, mine, again] {
                       Later(absl::ZeroDuration(), [this, mine, again] {
                         if (!mine()) return;
                         link_ = nullptr;
                         welcomed_ = false;
                         Later(world_->simulator->Between(absl::Milliseconds(10), absl::Seconds(1)), again);
                       });
                     }});
  world_->head->AddLink(link_);
  welcomed_ = false;
  last_reply_ = world_->simulator->now();
  v1::AgentToHead message;
  v1::RegisterNode& node = *message.mutable_register_node();
  node.set_node_id(id_);
  node.set_node_incarnation(incarnation_);
  node.set_protocol_version(scheduler::kNodeProtocolVersion);
  *node.mutable_resources() = resources_;
  node.mutable_labels()->insert(labels_.begin(), labels_.end());
  for (int d = 0; d < resources_.devices(); ++d) *node.add_devices() = DeviceOf(d);
  node.set_highest_term(highest_term_);
  node.set_sequence(static_cast<uint64_t>(world_->simulator->now().nanoseconds()));
  for (const auto& [life, process] : processes_) {
    if (!process.alive) continue;
    v1::RunningWorker* worker = node.add_workers();
    *worker->mutable_actor() = life.ToProto();
    worker->set_ready(process.ready);
  }
  for (const auto& [life, cause] : exits_) {
    v1::WorkerExited* exit = node.add_unacknowledged_exits();
    *exit->mutable_actor() = life.ToProto();
    *exit->mutable_cause() = cause;
  }
  Send(std::move(message));
  // An agent may give up a stream whose first message is still under way.
  if (world_->simulator->Chance(5)) {
    Later(world_->simulator->Between(absl::Milliseconds(1), absl::Milliseconds(50)), [this, agent = agent_] {
      if (agent == agent_) RestartAgent();
    });
  }
  Later(kHeartbeatInterval, [this, id] {
    if (link_ != nullptr && link_->id() == id) Heartbeat();
  });
}

v1::Device SimNode::DeviceOf(int index) const {
  v1::Device device;
  device.set_index(index);
  device.set_kind("sim");
  device.set_id("sim-" + std::to_string(index));
  device.set_memory_bytes(int64_t{80} << 30);
  device.set_numa_node(-1);
  device.set_island(index / 2);
  device.mutable_health()->set_state(failed_.contains(index) ? v1::DeviceHealth::FAILED : v1::DeviceHealth::HEALTHY);
  device.mutable_health()->set_reason(failed_.contains(index) ? "Xid 79" : "");
  return device;
}

void SimNode::SetDeviceHealth(int device, v1::DeviceHealth::State state) {
  const bool failed = state == v1::DeviceHealth::FAILED;
  if (failed == failed_.contains(device)) return;
  failed ? static_cast<void>(failed_.insert(device)) : static_cast<void>(failed_.erase(device));
  Later(absl::ZeroDuration(), [this, device] {
    if (!welcomed_) return;  // Told with the registration.
    v1::AgentToHead message;
    *message.mutable_device_changed()->mutable_device() = DeviceOf(device);
    Send(std::move(message));
  });
}

void SimNode::Heartbeat() {
  if (world_->simulator->now() - last_reply_ > kNoReply) return RestartAgent();  // A half-open stream: dial again.
  if (welcomed_) {
    v1::AgentToHead message;
    message.mutable_heartbeat()->set_node_incarnation(incarnation_);
    Send(std::move(message));
  }
  Later(kHeartbeatInterval, [this, id = link_->id()] {
    if (link_ != nullptr && link_->id() == id) Heartbeat();
  });
}

void SimNode::Send(v1::AgentToHead message) {
  if (link_ != nullptr) link_->ToHead(std::move(message));
}

void SimNode::SendExit(const ActorLife& life) {
  if (link_ == nullptr) return;  // Told with the next registration.
  v1::AgentToHead message;
  *message.mutable_worker_exited()->mutable_actor() = life.ToProto();
  *message.mutable_worker_exited()->mutable_cause() = exits_.at(life);
  Send(message);
  if (world_->simulator->Chance(10)) Send(std::move(message));  // A repeat has no effect.
}

void SimNode::Arrive(const v1::HeadToAgent& message) {
  if (Tracing() && !message.has_heartbeat_reply()) {
    Trace(world_->simulator->now(), id_ + " gets " + std::to_string(link_->id()) + " " + message.ShortDebugString());
  }
  const scheduler::ClusterState& durable = world_->head->durable();
  switch (message.message_case()) {
    case v1::HeadToAgent::kWelcomeNode: {
      const v1::WelcomeNode& welcome = message.welcome_node();
      Require(welcome.term() >= highest_term_, "INC-1: an older head is not obeyed");
      Require(durable.FindNode(NodeId(id_))->incarnation >= welcome.node_incarnation(),
              "REC-1: a grant is durable first");
      highest_term_ = welcome.term();
      incarnation_ = welcome.node_incarnation();
      welcomed_ = true;
      for (const v1::ActorIncarnation& actor : welcome.unknown_workers()) {
        Kill(ActorLife::FromProto(actor), world_->simulator->Between(absl::Milliseconds(1), absl::Milliseconds(300)),
             v1::ExitCause::STOPPED);
      }
      return;
    }
    case v1::HeadToAgent::kStartWorker:
      return Start(message.start_worker());
    case v1::HeadToAgent::kStopWorker: {
      ActorLife life = ActorLife::FromProto(message.stop_worker().actor());
      auto it = processes_.find(life);
      if (it == processes_.end() || !it->second.alive) return;
      it->second.stop_asked = true;
      Kill(life, world_->simulator->Between(absl::ZeroDuration(), absl::Milliseconds(message.stop_worker().grace_ms())),
           v1::ExitCause::STOPPED);
      return;
    }
    case v1::HeadToAgent::kAcknowledgeExit: {
      ActorLife life = ActorLife::FromProto(message.acknowledge_exit().actor());
      const scheduler::Replica* replica = durable.FindReplica(life.path);
      bool recorded = replica == nullptr || !replica->live || replica->incarnation != life.incarnation;
      Require(recorded, "ACK-1: an exit is acknowledged when it is recorded: " + life.ToString());
      exits_.erase(life);
      processes_.erase(life);
      return;
    }
    case v1::HeadToAgent::kHeartbeatReply:
      last_reply_ = world_->simulator->now();
      return;
    default:
      return;
  }
}

void SimNode::Start(const v1::StartWorker& start) {
  ActorLife life = ActorLife::FromProto(start.actor());
  if (processes_.contains(life) || exits_.contains(life)) return;
  const scheduler::Replica* replica = world_->head->durable().FindReplica(life.path);
  Require(replica != nullptr && replica->incarnation >= life.incarnation,
          "REC-1: a grant is durable first: " + life.ToString());
  Process process{.life = life, .start = start, .node_incarnation = incarnation_, .slot = SlotOf(start)};
  CheckOwners(process);
  Process& kept = processes_.emplace(life, std::move(process)).first->second;
  if (world_->simulator->Chance(2)) return Kill(life, absl::Milliseconds(1), v1::ExitCause::START_FAILED);
  world_->started(id_, kept);
  Later(world_->simulator->Between(absl::Milliseconds(5), absl::Milliseconds(500)), [this, life] {
    auto it = processes_.find(life);
    if (it == processes_.end() || !it->second.alive) return;
    it->second.ready = true;
    v1::AgentToHead message;
    *message.mutable_worker_ready()->mutable_address()->mutable_actor() = life.ToProto();
    Send(std::move(message));
    world_->ready(id_, life);
  });
}

// DEV-1 and the node's limits, by what really runs.
void SimNode::CheckOwners(const Process& process) const {
  std::map<std::string, scheduler::Amount> slots;
  std::map<int, std::map<std::string, int>> device_owners;
  auto add = [&](const Process& p) {
    scheduler::Amount need = scheduler::Amount::FromProto(p.start.role().resources());
    scheduler::Amount& largest = slots[p.slot];
    largest.milli_cpus = std::max(largest.milli_cpus, need.milli_cpus);
    for (int device : p.start.device_indices()) {
      Require(device < resources_.devices(), "a device that the node has not");
      int shares = need.device_shares > 0 ? need.device_shares : need.devices > 0 ? scheduler::kSharesPerDevice : 0;
      int& held = device_owners[device][p.slot];
      held = std::max(held, shares);
    }
  };
  for (const auto& [life, other] : processes_) {
    if (!other.alive) continue;
    Require(other.life.path != process.life.path, "INC-3: one incarnation at a time: " + process.life.ToString());
    add(other);
  }
  add(process);
  int64_t milli_cpus = 0;
  for (const auto& [slot, need] : slots) milli_cpus += need.milli_cpus;
  Require(milli_cpus <= scheduler::Amount::FromProto(resources_).milli_cpus, "CPU-1: cpus are not given out twice");
  for (const auto& [device, owners] : device_owners) {
    int shares = 0;
    for (const auto& [slot, held] : owners) shares += held;
    Require(shares <= scheduler::kSharesPerDevice, "DEV-1: a device (its share) has at most one live owner: " + id_);
  }
}

void SimNode::Kill(const ActorLife& life, absl::Duration after, v1::ExitCause::Kind kind) {
  Later(after, [this, life, kind] { Exit(life, kind, kind == v1::ExitCause::SIGNALED ? 9 : 0); });
}

void SimNode::Exit(const ActorLife& life, v1::ExitCause::Kind kind, int code) {
  auto it = processes_.find(life);
  if (!up_ || it == processes_.end() || !it->second.alive) return;
  it->second.alive = false;
  Trace(world_->simulator->now(), id_ + " exit " + life.ToString());
  v1::ExitCause& cause = exits_[life];
  cause.set_kind(it->second.stop_asked && kind == v1::ExitCause::SIGNALED ? v1::ExitCause::STOPPED : kind);
  cause.set_exit_code(code);
  SendExit(life);
}

}  // namespace troupe::simulation
