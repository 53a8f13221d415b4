// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/instant_node.h"

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"

namespace troupe::bench {
namespace {

constexpr double kCpus = 1e6;

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

absl::StatusOr<std::unique_ptr<InstantNode>> InstantNode::Start(const std::shared_ptr<grpc::Channel>& channel) {
  std::unique_ptr<InstantNode> node(new InstantNode);
  node->stub_ = v1::NodeControl::NewStub(channel);
  node->context_.set_wait_for_ready(true);
  node->stream_ = node->stub_->Session(&node->context_);
  v1::AgentToHead message;
  v1::RegisterNode* registered = message.mutable_register_node();
  registered->set_node_id("instant");
  registered->set_protocol_version(1);
  registered->mutable_resources()->set_cpus(kCpus);
  v1::HeadToAgent welcome;
  if (!node->stream_->Write(message) || !node->stream_->Read(&welcome) || !welcome.has_welcome_node()) {
    absl::Status ended = FromGrpc(node->stream_->Finish());
    return ended.ok() ? absl::UnavailableError("the head did not welcome the node") : ended;
  }
  node->incarnation_ = welcome.welcome_node().node_incarnation();
  node->interval_ = absl::Milliseconds(welcome.welcome_node().heartbeat_interval_ms());
  node->reader_ = std::thread([raw = node.get()] { raw->Serve(); });
  node->heart_ = std::thread([raw = node.get()] { raw->Beat(); });
  return node;
}

InstantNode::~InstantNode() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (stream_ == nullptr) return;
  context_.TryCancel();
  if (reader_.joinable()) {
    reader_.join();
    heart_.join();
    (void)stream_->Finish();
  }
}

void InstantNode::Serve() {
  for (v1::HeadToAgent order; stream_->Read(&order);) {
    if (order.has_start_worker()) Write(Ready(order.start_worker().actor()));
    if (order.has_stop_worker()) Write(Stopped(order.stop_worker().actor()));
  }
}

void InstantNode::Beat() {
  v1::AgentToHead message;
  message.mutable_heartbeat()->set_node_incarnation(incarnation_);
  for (uint64_t sequence = 1;; ++sequence) {
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, MonotonicNow() + interval_, [this] { return stopping_; });
      if (stopping_) return;
    }
    message.mutable_heartbeat()->set_sequence(sequence);
    Write(message);
  }
}

void InstantNode::Write(const v1::AgentToHead& message) {
  MutexLock lock(mutex_);
  if (!stopping_) (void)stream_->Write(message);  // A broken stream ends the reading.
}

}  // namespace troupe::bench
