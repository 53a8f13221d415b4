// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/head_link.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

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
constexpr size_t kMessagesPerWriteMax = 256;

absl::Duration BackoffAfter(const absl::Status& status, absl::Duration last) {
  bool hopeless = absl::IsFailedPrecondition(status) || absl::IsUnauthenticated(status) ||
                  absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status) || absl::IsUnimplemented(status);
  return hopeless ? kBackoffHopeless : std::min(std::max(last * 2, kBackoffMin), kBackoffMax);
}

}  // namespace

// One stream. gRPC calls OnReadDone one after the other and OnDone last, where the link lets go of it. The hold is for
// writes, which start outside of reactions: it ends when nothing can be read any more, and then no write starts.
class HeadLink::Stream final : public grpc::ClientBidiReactor<v1::AgentMessages, v1::HeadMessages> {
 public:
  explicit Stream(HeadLink* link) : link_(link) {
    link_->stub_->async()->Session(&context_, this);
    AddHold();
  }

  void Start() {
    StartRead(&incoming_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }
  void Write(v1::AgentMessages messages) {
    outgoing_ = std::move(messages);
    StartWrite(&outgoing_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        MutexLock lock(link_->mutex_);
        link_->open_ = false;
      }
      return RemoveHold();
    }
    {
      MutexLock lock(link_->mutex_);
      link_->welcomed_ = link_->corked_ = true;
    }
    for (v1::HeadToAgent& message : *incoming_.mutable_messages()) link_->sink_(HeadSaid{std::move(message)});
    {
      MutexLock lock(link_->mutex_);
      link_->corked_ = false;
      link_->WriteLocked();
    }
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(link_->mutex_);
    link_->writing_ = false;
    if (ok) link_->WriteLocked();
    if (!link_->writing_) link_->changed_.NotifyAll();
  }
  void OnDone(const grpc::Status& status) override { link_->Ended(FromGrpc(status)); }

 private:
  HeadLink* const link_;
  grpc::ClientContext context_;
  v1::HeadMessages incoming_;
  v1::AgentMessages outgoing_;
};

HeadLink::HeadLink(const std::string& target, const RpcSecurity& security, Sink sink)
    : channel_(MakeChannel(target, security)), stub_(v1::NodeControl::NewStub(channel_)), sink_(std::move(sink)) {
  time_keeper_ = std::thread([this] { KeepTime(); });
}

HeadLink::~HeadLink() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->Cancel();
    changed_.NotifyAll();
  }
  time_keeper_.join();
}

void HeadLink::Send(uint64_t stream, v1::AgentToHead message) {
  MutexLock lock(mutex_);
  if (stream_ == nullptr || stream != stream_number_) return;
  if (queue_.size() >= kQueueMax) return stream_->Cancel();
  queue_.push_back(std::move(message));
  WriteLocked();
}

void HeadLink::HangUp(uint64_t stream) {
  MutexLock lock(mutex_);
  if (stream_ != nullptr && stream == stream_number_) stream_->Cancel();
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

void HeadLink::WriteLocked() {
  if (!open_ || writing_ || corked_ || queue_.empty()) return;
  v1::AgentMessages messages;
  while (!queue_.empty() && static_cast<size_t>(messages.messages_size()) < kMessagesPerWriteMax) {
    *messages.add_messages() = std::move(queue_.front());
    queue_.pop_front();
  }
  writing_ = true;
  stream_->Write(std::move(messages));
}

void HeadLink::Ended(const absl::Status& status) {
  sink_(HeadDisconnected{status});
  std::unique_ptr<Stream> ended;  // Freed when the lock is not held any more.
  MutexLock lock(mutex_);
  ended = std::move(stream_);
  queue_.clear();
  open_ = writing_ = corked_ = false;
  next_heartbeat_ = Monotonic::Infinite();
  backoff_ = BackoffAfter(status, welcomed_ ? absl::ZeroDuration() : backoff_);
  dial_at_ = MonotonicNow() + backoff_;
  changed_.NotifyAll();
}

// ---- The thread that dials and sends heartbeats ----

void HeadLink::KeepTime() {
  while (WaitToDial()) {
    Stream* stream = nullptr;
    uint64_t number = 0;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      stream_ = std::make_unique<Stream>(this);
      stream = stream_.get();
      number = ++stream_number_;
      open_ = true;
      welcomed_ = false;
    }
    sink_(HeadConnected{number});
    stream->Start();
  }
}

// Sends heartbeats meanwhile. False: the link ends and no stream is left.
bool HeadLink::WaitToDial() {
  for (MutexLock lock(mutex_);;) {
    Monotonic now = MonotonicNow();
    if (stream_ == nullptr && stopping_) return false;
    if (stream_ == nullptr && now >= dial_at_) return true;
    if (stream_ != nullptr && now >= next_heartbeat_) {
      next_heartbeat_ = now + heartbeat_interval_;
      if (queue_.size() < kQueueMax) {
        v1::AgentToHead& message = queue_.emplace_front();
        message.mutable_heartbeat()->set_sequence(++heartbeat_sequence_);
        message.mutable_heartbeat()->set_node_incarnation(node_incarnation_);
        WriteLocked();
      }
    }
    changed_.WaitUntil(lock, stream_ == nullptr ? dial_at_ : next_heartbeat_,
                       [first = true]() mutable { return !std::exchange(first, false); });
  }
}

}  // namespace troupe::agent
