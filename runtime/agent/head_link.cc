// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/head_link.h"

#include <grpcpp/client_context.h>

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"

namespace troupe::agent {
namespace {

constexpr absl::Duration kBackoffMin = absl::Milliseconds(50);
constexpr absl::Duration kBackoffMax = absl::Seconds(2);
// After an answer that a repeat will not change soon: another version, a wrong token, another node of this id.
constexpr absl::Duration kBackoffHopeless = absl::Seconds(10);

absl::Duration BackoffAfter(const absl::Status& status, absl::Duration last) {
  bool hopeless = absl::IsFailedPrecondition(status) || absl::IsUnauthenticated(status) ||
                  absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status) || absl::IsUnimplemented(status);
  return hopeless ? kBackoffHopeless : std::min(std::max(last * 2, kBackoffMin), kBackoffMax);
}

}  // namespace

HeadLink::HeadLink(const std::string& target, const RpcSecurity& security, Sink sink)
    : channel_(MakeChannel(target, security)), sink_(std::move(sink)) {
  dialer_ = std::thread([this] { Dial(); });
  writer_ = std::thread([this] { Write(); });
}

HeadLink::~HeadLink() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
    changed_.NotifyAll();
  }
  dialer_.join();
  writer_.join();
}

bool HeadLink::stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void HeadLink::Send(uint64_t stream, v1::AgentToHead message) {
  MutexLock lock(mutex_);
  if (stream_ == nullptr || stream != stream_number_) return;
  if (queue_.size() >= kQueueMax) return context_->TryCancel();
  queue_.push_back(std::move(message));
  changed_.NotifyAll();
}

void HeadLink::HangUp(uint64_t stream) {
  MutexLock lock(mutex_);
  if (stream_ != nullptr && stream == stream_number_) context_->TryCancel();
}

void HeadLink::SetHeartbeat(uint64_t stream, absl::Duration interval, uint64_t node_incarnation) {
  MutexLock lock(mutex_);
  if (stream_ == nullptr || stream != stream_number_) return;
  heartbeat_interval_ = std::max(interval, absl::Milliseconds(10));
  node_incarnation_ = node_incarnation;
  next_heartbeat_ = MonotonicNow();
  changed_.NotifyAll();
}

void HeadLink::Flush(absl::Duration timeout) {
  MutexLock lock(mutex_);
  changed_.WaitUntil(lock, MonotonicNow() + timeout,
                     [&] { return stream_ == nullptr || (queue_.empty() && !writing_); });
}

void HeadLink::Pause(absl::Duration duration) {
  MutexLock lock(mutex_);
  changed_.WaitUntil(lock, MonotonicNow() + duration, [&] { return stopping_; });
}

// ---- The dialing thread: it also reads ----

void HeadLink::Dial() {
  std::unique_ptr<v1::NodeControl::Stub> stub = v1::NodeControl::NewStub(channel_);
  while (!stopping()) ServeStream(*stub);
}

void HeadLink::ServeStream(v1::NodeControl::Stub& stub) {
  absl::Duration backoff = absl::ZeroDuration();
  while (!stopping()) {
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream;
    uint64_t number;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      stream = stub.Session(&context);
      context_ = &context;
      stream_ = stream.get();
      number = ++stream_number_;
      queue_.clear();
      heartbeat_interval_ = absl::ZeroDuration();
      next_heartbeat_ = Monotonic::Infinite();
    }
    sink_(HeadConnected{number});
    bool welcomed = false;
    v1::HeadToAgent message;
    while (stream->Read(&message)) {
      welcomed = true;
      sink_(HeadSaid{message});
    }
    {
      // The writer may still be using it.
      MutexLock lock(mutex_);
      stream_ = nullptr;
      changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return !writing_; });
    }
    absl::Status status = FromGrpc(stream->Finish());
    {
      MutexLock lock(mutex_);
      context_ = nullptr;
      changed_.NotifyAll();
    }
    sink_(HeadDisconnected{status});
    backoff = BackoffAfter(status, welcomed ? absl::ZeroDuration() : backoff);
    Pause(backoff);
  }
}

// ---- The writing thread ----

void HeadLink::Write() {
  while (true) {
    v1::AgentToHead message;
    grpc::WriteOptions options;
    Stream* stream;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, next_heartbeat_, [&] {
        return stopping_ || (stream_ != nullptr && !queue_.empty()) || MonotonicNow() >= next_heartbeat_;
      });
      if (stopping_) return;
      if (stream_ == nullptr) {
        next_heartbeat_ = Monotonic::Infinite();
        continue;
      }
      if (MonotonicNow() >= next_heartbeat_) {
        message.mutable_heartbeat()->set_sequence(++heartbeat_sequence_);
        message.mutable_heartbeat()->set_node_incarnation(node_incarnation_);
        next_heartbeat_ = MonotonicNow() + heartbeat_interval_;
      } else if (!queue_.empty()) {
        message = std::move(queue_.front());
        queue_.pop_front();
        if (!queue_.empty()) options.set_buffer_hint();  // Leaves with the next one.
      } else {
        continue;
      }
      stream = stream_;
      writing_ = true;
    }
    stream->Write(message, options);
    MutexLock lock(mutex_);
    writing_ = false;
    changed_.NotifyAll();
  }
}

}  // namespace troupe::agent
