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
// For the agent to take what was said last: it comes before the exit then.
constexpr absl::Duration kFarewell = absl::Seconds(1);

}  // namespace

AgentLink::AgentLink(std::shared_ptr<grpc::Channel> agent, ActorLife self, Events events)
    : stub_(v1::Agent::NewStub(std::move(agent))), self_(std::move(self)), events_(std::move(events)) {
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
    stopping_ = true;
    changed_.NotifyAll();
  }
  {
    MutexLock lock(write_mutex_);
    if (stream_ != nullptr) std::exchange(stream_, nullptr)->WritesDone();
  }
  MutexLock lock(mutex_);
  changed_.WaitUntil(lock, MonotonicNow() + kFarewell, [this] { return context_ == nullptr; });
  if (context_ != nullptr) context_->TryCancel();
}

void AgentLink::RunSession() {
  absl::Duration retry = kRetryFirst;
  while (true) {
    Monotonic started = MonotonicNow();
    absl::Status ended = OneSession();
    if (absl::IsNotFound(ended)) {
      {
        MutexLock lock(mutex_);
        if (stopping_) return;
      }
      return events_.unknown(ended);
    }
    retry = MonotonicNow() - started > kRetryMax ? kRetryFirst : std::min(2 * retry, kRetryMax);
    MutexLock lock(mutex_);
    if (changed_.WaitUntil(lock, MonotonicNow() + retry, [this] { return stopping_; })) return;
  }
}

absl::Status AgentLink::OneSession() {
  grpc::ClientContext context;
  v1::WorkerToAgent hello;
  {
    MutexLock lock(mutex_);
    if (stopping_) return absl::CancelledError("stopping");
    context_ = &context;
    hello = Hello();
  }
  std::unique_ptr<Stream> stream = stub_->WorkerSession(&context);
  if (stream->Write(hello)) {
    MutexLock lock(write_mutex_);
    stream_ = stream.get();
  }
  SayWhatIsNew(hello.hello());
  v1::AgentToWorker message;
  while (stream->Read(&message)) Take(message);
  {
    MutexLock lock(write_mutex_);
    stream_ = nullptr;
  }
  absl::Status ended = FromGrpc(stream->Finish());
  MutexLock lock(mutex_);
  context_ = nullptr;
  changed_.NotifyAll();
  return ended;
}

void AgentLink::SayWhatIsNew(const v1::WorkerHello& said) {
  v1::WorkerToAgent ready;
  {
    MutexLock lock(mutex_);
    if (!ready_ || said.ready()) return;
    ready.mutable_ready()->set_endpoint(endpoint_);
    ready.mutable_ready()->set_remote_endpoint(remote_endpoint_);
  }
  Write(ready);
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
  Write(message);
}

void AgentLink::SayEnded(const std::string& text) {
  v1::WorkerToAgent message;
  message.mutable_ended()->set_text(text);
  Write(message);
}

}  // namespace troupe
