// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker/agent_link.h"

#include <grpcpp/client_context.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

constexpr absl::Duration kRetryFirst = absl::Milliseconds(50);
constexpr absl::Duration kRetryMax = absl::Seconds(1);
// For the agent to take what was said: it comes before the exit then.
constexpr absl::Duration kFarewell = absl::Seconds(1);

}  // namespace

AgentLink::AgentLink(std::shared_ptr<grpc::Channel> agent, ActorLife self, absl::Duration last_word_max, Events events)
    : stub_(v1::Agent::NewStub(std::move(agent))),
      self_(std::move(self)),
      last_word_max_(last_word_max),
      events_(std::move(events)) {
  session_thread_ = std::thread([this] { RunSession(); });
  heartbeat_thread_ = std::thread([this] { RunHeartbeats(); });
}

AgentLink::~AgentLink() {
  Close();
  session_thread_.join();
  heartbeat_thread_.join();
}

void AgentLink::Close() {
  {
    MutexLock lock(mutex_);
    if (!stopping_) stop_at_ = MonotonicNow() + (last_word_.has_value() ? last_word_max_ : kFarewell);
    stopping_ = true;
    changed_.NotifyAll();
  }
  {
    MutexLock lock(write_mutex_);
    EndWrites();
  }
  MutexLock lock(mutex_);
  changed_.WaitUntil(lock, stop_at_, [this] { return over_; });
  stop_at_ = Monotonic();
  changed_.NotifyAll();
  if (context_ != nullptr) context_->TryCancel();
}

void AgentLink::RunSession() {
  absl::Duration retry = kRetryFirst;
  absl::Status ended;
  while (true) {
    Monotonic started = MonotonicNow();
    ended = OneSession();
    retry = MonotonicNow() - started > kRetryMax ? kRetryFirst : std::min(2 * retry, kRetryMax);
    MutexLock lock(mutex_);
    over_ = absl::IsNotFound(ended) || changed_.WaitUntil(lock, MonotonicNow() + retry, [this] { return Done(); });
    if (!over_) continue;
    changed_.NotifyAll();
    if (stopping_ || !absl::IsNotFound(ended)) return;
    break;
  }
  events_.unknown(ended);
}

bool AgentLink::Done() const {
  return stopping_ && (heard_out_ || !last_word_.has_value() || MonotonicNow() >= stop_at_);
}

absl::Status AgentLink::OneSession() {
  grpc::ClientContext context;
  v1::WorkerToAgent hello;
  {
    MutexLock lock(mutex_);
    if (Done()) return absl::CancelledError("stopping");
    context_ = &context;
    hello = Hello();
  }
  std::unique_ptr<Stream> stream = stub_->WorkerSession(&context);
  {
    MutexLock lock(write_mutex_);
    if (stream->Write(hello)) {
      stream_ = stream.get();
      SayTheRest(hello.hello());
    }
  }
  v1::AgentToWorker message;
  while (stream->Read(&message)) Take(message);
  bool writes_ended = false;
  {
    MutexLock lock(write_mutex_);
    stream_ = nullptr;
    writes_ended = std::exchange(writes_ended_, false);
  }
  absl::Status ended = FromGrpc(stream->Finish());
  MutexLock lock(mutex_);
  context_ = nullptr;
  heard_out_ = ended.ok() && writes_ended;
  return ended;
}

void AgentLink::SayTheRest(const v1::WorkerHello& said) {
  std::optional<v1::WorkerToAgent> ready, last;
  bool stopping = false;
  {
    MutexLock lock(mutex_);
    if (ready_ && !said.ready()) {
      ready.emplace().mutable_ready()->set_endpoint(endpoint_);
      ready->mutable_ready()->set_remote_endpoint(remote_endpoint_);
    }
    last = last_word_;
    stopping = stopping_;
  }
  if (ready.has_value()) stream_->Write(*ready);
  if (last.has_value()) stream_->Write(*last);
  if (stopping) EndWrites();
}

void AgentLink::EndWrites() {
  if (stream_ == nullptr) return;
  std::exchange(stream_, nullptr)->WritesDone();
  writes_ended_ = true;
}

v1::WorkerToAgent AgentLink::Hello() {
  v1::WorkerToAgent message;
  v1::WorkerHello& hello = *message.mutable_hello();
  *hello.mutable_actor() = self_.ToProto();
  hello.set_pid(::getpid());
  hello.set_reconnect(assigned_);
  hello.set_ready(ready_);
  hello.set_endpoint(endpoint_);
  hello.set_remote_endpoint(remote_endpoint_);
  return message;
}

void AgentLink::Take(const v1::AgentToWorker& message) {
  if (message.has_assignment()) {
    {
      MutexLock lock(mutex_);
      if (assigned_) return;
      assigned_ = true;
    }
    events_.assigned(message.assignment());
  } else if (message.has_stop()) {
    events_.stop(message.stop());
  }
}

void AgentLink::Write(const v1::WorkerToAgent& message) {
  MutexLock lock(write_mutex_);
  if (stream_ != nullptr) stream_->Write(message);  // A failure is seen by the reading side.
}

void AgentLink::RunHeartbeats() {
  v1::WorkerToAgent heartbeat;
  for (uint64_t sequence = 1;; ++sequence) {
    {
      MutexLock lock(mutex_);
      if (changed_.WaitUntil(lock, MonotonicNow() + heartbeat_interval_, [this] { return stopping_; })) return;
    }
    heartbeat.mutable_heartbeat()->set_sequence(sequence);
    Write(heartbeat);
  }
}

void AgentLink::SetHeartbeatInterval(absl::Duration interval) {
  MutexLock lock(mutex_);
  heartbeat_interval_ = interval;
}

void AgentLink::SayReady(const std::string& endpoint, const std::string& remote_endpoint) {
  {
    MutexLock lock(mutex_);
    ready_ = true;
    endpoint_ = endpoint;
    remote_endpoint_ = remote_endpoint;
  }
  v1::WorkerToAgent message;
  message.mutable_ready()->set_endpoint(endpoint);
  message.mutable_ready()->set_remote_endpoint(remote_endpoint);
  Write(message);
}

void AgentLink::SayStartFailed(const absl::Status& error) {
  v1::WorkerToAgent message;
  *message.mutable_start_failed()->mutable_error() = ToErrorStatus(error);
  SayLast(std::move(message));
}

void AgentLink::SayEnded(const std::string& text) {
  v1::WorkerToAgent message;
  message.mutable_ended()->set_text(text);
  SayLast(std::move(message));
}

void AgentLink::SayLast(v1::WorkerToAgent word) {
  {
    MutexLock lock(mutex_);
    last_word_ = word;
  }
  Write(word);
}

}  // namespace troupe
