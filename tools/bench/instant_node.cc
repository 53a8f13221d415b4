// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/instant_node.h"

#include "runtime/env/clock.h"

namespace troupe::bench {
namespace {

constexpr double kCpus = 1e6;
constexpr absl::Duration kPatience = absl::Seconds(10);

v1::AgentToHead Registration() {
  v1::AgentToHead message;
  v1::RegisterNode& registered = *message.mutable_register_node();
  registered.set_node_id("instant");
  registered.set_protocol_version(2);
  registered.mutable_resources()->set_cpus(kCpus);
  return message;
}

v1::AgentToHead Ready(const v1::ActorIncarnation& actor) {
  v1::AgentToHead message;
  v1::ActorAddress* address = message.mutable_worker_ready()->mutable_address();
  *address->mutable_actor() = actor;
  address->set_endpoint("unix:/nowhere");
  return message;
}

v1::AgentToHead Stopped(const v1::ActorIncarnation& actor) {
  v1::AgentToHead message;
  *message.mutable_worker_exited()->mutable_actor() = actor;
  message.mutable_worker_exited()->mutable_cause()->set_kind(v1::ExitCause::STOPPED);
  return message;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InstantNode>> InstantNode::Start(const std::string& target,
                                                                const RpcSecurity& security) {
  std::unique_ptr<InstantNode> node(new InstantNode);
  MutexLock lock(node->mutex_);
  node->link_ = std::make_unique<agent::HeadLink>(
      target, security, [raw = node.get()](const agent::AgentEvent& event) { raw->On(event); });
  bool answered = node->changed_.WaitUntil(lock, MonotonicNow() + kPatience, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return node->welcomed_ || !node->refused_.ok();
  });
  if (!answered) return absl::DeadlineExceededError("the head at " + target + " did not welcome the node");
  if (!node->refused_.ok()) return node->refused_;
  return node;
}

void InstantNode::On(const agent::AgentEvent& event) {
  MutexLock lock(mutex_);
  if (auto* connected = std::get_if<agent::HeadConnected>(&event)) {
    stream_ = connected->stream;
    link_->Send(stream_, Registration());
  } else if (auto* disconnected = std::get_if<agent::HeadDisconnected>(&event)) {
    if (!welcomed_) refused_ = disconnected->status;
    changed_.NotifyAll();
  } else if (auto* said = std::get_if<agent::HeadSaid>(&event)) {
    const v1::HeadToAgent& order = said->message;
    if (order.has_welcome_node()) {
      const v1::WelcomeNode& welcome = order.welcome_node();
      link_->SetHeartbeat(stream_, absl::Milliseconds(welcome.heartbeat_interval_ms()), welcome.node_incarnation());
      welcomed_ = true;
      changed_.NotifyAll();
    }
    if (order.has_start_worker()) link_->Send(stream_, Ready(order.start_worker().actor()));
    if (order.has_stop_worker()) link_->Send(stream_, Stopped(order.stop_worker().actor()));
  }
}

}  // namespace troupe::bench
