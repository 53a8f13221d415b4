// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fake_head.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"

namespace troupe::tests {
namespace {

void Write(const v1::HeadToAgent& message, grpc::ServerReaderWriter<v1::HeadMessages, v1::AgentMessages>& stream) {
  v1::HeadMessages messages;
  *messages.add_messages() = message;
  stream.Write(messages);
}

}  // namespace

void FakeHead::Start() {
  absl::StatusOr<std::unique_ptr<RpcServer>> server =
      RpcServer::Start({.addresses = {address_}, .security = {.token = token_}}, {this});
  INFO(StatusText(server.status()));
  REQUIRE(server.ok());
  server_ = *std::move(server);
}

void FakeHead::Stop() {
  if (server_ != nullptr) server_->Shutdown(absl::ZeroDuration());
  server_.reset();
  MutexLock lock(mutex_);
  heard_.clear();
}

void FakeHead::SetWelcome(uint64_t term, uint64_t node_incarnation) {
  MutexLock lock(mutex_);
  term_ = term;
  node_incarnation_ = node_incarnation;
}

grpc::Status FakeHead::Session(grpc::ServerContext*, Stream* stream) {
  v1::AgentMessages messages;
  while (stream->Read(&messages)) {
    for (const v1::AgentToHead& message : messages.messages()) Handle(message, *stream);
  }
  MutexLock lock(mutex_);
  if (stream_ == stream) stream_ = nullptr;
  return grpc::Status::OK;
}

void FakeHead::Handle(const v1::AgentToHead& message, Stream& stream) {
  MutexLock lock(mutex_);
  v1::HeadToAgent answer;
  if (message.has_register_node()) {
    stream_ = &stream;
    v1::WelcomeNode& welcome = *answer.mutable_welcome_node();
    welcome.set_term(term_);
    welcome.set_node_incarnation(node_incarnation_);
    welcome.set_heartbeat_interval_ms(50);
    welcome.set_lease_ms(5000);
    welcome.set_head_loss_grace_ms(60'000);
  } else if (message.has_heartbeat()) {
    ++heartbeats_;
    answer.mutable_heartbeat_reply()->set_sequence(message.heartbeat().sequence());
    answer.mutable_heartbeat_reply()->set_term(term_);
  } else if (message.has_worker_exited()) {
    *answer.mutable_acknowledge_exit()->mutable_actor() = message.worker_exited().actor();
  }
  if (!message.has_heartbeat()) heard_.push_back(message);
  if (answer.message_case() != v1::HeadToAgent::MESSAGE_NOT_SET) Write(answer, stream);
  for (const v1::WorkerExited& exited : message.register_node().unacknowledged_exits()) {
    v1::HeadToAgent acknowledge;
    *acknowledge.mutable_acknowledge_exit()->mutable_actor() = exited.actor();
    Write(acknowledge, stream);
  }
  changed_.NotifyAll();
}

void FakeHead::Send(const v1::HeadToAgent& message) {
  MutexLock lock(mutex_);
  REQUIRE(stream_ != nullptr);
  Write(message, *stream_);
}

void FakeHead::StartWorker(const ActorLife& actor, const std::string& behaviour, const std::string& output_dir,
                           absl::Duration hang_timeout) {
  v1::HeadToAgent order;
  v1::StartWorker& start = *order.mutable_start_worker();
  *start.mutable_actor() = actor.ToProto();
  start.mutable_role()->set_role(actor.path.role);
  start.mutable_role()->set_actor_class(behaviour);
  start.set_output_dir(output_dir);
  start.set_hang_timeout_ms(absl::ToInt64Milliseconds(hang_timeout));
  {
    MutexLock lock(mutex_);
    start.set_term(term_);
  }
  Send(order);
}

void FakeHead::StopWorker(const ActorLife& actor, absl::Duration grace) {
  v1::HeadToAgent order;
  *order.mutable_stop_worker()->mutable_actor() = actor.ToProto();
  order.mutable_stop_worker()->set_grace_ms(absl::ToInt64Milliseconds(grace));
  order.mutable_stop_worker()->set_reason("a test");
  {
    MutexLock lock(mutex_);
    order.mutable_stop_worker()->set_term(term_);
  }
  Send(order);
}

bool FakeHead::WaitUntil(const std::function<bool()>& condition) {
  MutexLock lock(mutex_);
  return changed_.WaitUntil(lock, MonotonicNow() + kPatience, condition);
}

v1::RegisterNode FakeHead::WaitRegistration(size_t count) {
  v1::RegisterNode found;
  bool came = WaitUntil([&] {
    size_t seen = 0;
    for (const v1::AgentToHead& m : heard_) {
      if (m.has_register_node() && ++seen == count) found = m.register_node();
    }
    return seen >= count;
  });
  REQUIRE(came);
  return found;
}

void FakeHead::WaitReady(const ActorLife& actor) {
  bool came = WaitUntil([&] {
    return std::any_of(heard_.begin(), heard_.end(), [&](const v1::AgentToHead& m) {
      return m.has_worker_ready() && ActorLife::FromProto(m.worker_ready().address().actor()) == actor;
    });
  });
  INFO(actor.ToString());
  REQUIRE(came);
}

v1::ExitCause FakeHead::WaitExit(const ActorLife& actor) {
  v1::ExitCause found;
  bool came = WaitUntil([&] {
    for (const v1::AgentToHead& m : heard_) {
      std::vector<v1::WorkerExited> exits(m.register_node().unacknowledged_exits().begin(),
                                          m.register_node().unacknowledged_exits().end());
      if (m.has_worker_exited()) exits.push_back(m.worker_exited());
      for (const v1::WorkerExited& exited : exits) {
        if (ActorLife::FromProto(exited.actor()) != actor) continue;
        found = exited.cause();
        return true;
      }
    }
    return false;
  });
  INFO(actor.ToString());
  REQUIRE(came);
  return found;
}

size_t FakeHead::registrations() {
  MutexLock lock(mutex_);
  return std::count_if(heard_.begin(), heard_.end(), [](const auto& m) { return m.has_register_node(); });
}

int FakeHead::heartbeats() {
  MutexLock lock(mutex_);
  return heartbeats_;
}

}  // namespace troupe::tests
