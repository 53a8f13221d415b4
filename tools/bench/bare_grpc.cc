// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bare_grpc.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"

namespace troupe::bench {
namespace {

// A buffer hint on all but every so many messages.
constexpr int64_t kHinted = 64;

class EchoReactor : public grpc::ServerBidiReactor<v1::EchoMessage, v1::EchoMessage> {
 public:
  EchoReactor() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      if (ok) {
        waiting_.push_back(request_.id());
      } else {
        last_read_ = true;
      }
      Continue();
    }
    if (ok) StartRead(&request_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) waiting_.clear();
    Continue();
  }
  void OnDone() override { delete this; }

 private:
  void Continue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_) return;
    if (waiting_.empty()) {
      if (last_read_ && !std::exchange(finished_, true)) Finish(grpc::Status::OK);
      return;
    }
    answer_.set_id(waiting_.front());
    waiting_.pop_front();
    writing_ = true;
    grpc::WriteOptions options;
    if (!waiting_.empty()) options.set_buffer_hint();
    StartWrite(&answer_, options);
  }

  v1::EchoMessage request_, answer_;
  Mutex mutex_;
  std::deque<uint64_t> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool last_read_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status Broken() { return absl::UnavailableError("the stream of the other process has ended"); }

// How many answers have come, for the one who writes.
class Answers {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
    if (count_ >= wanted_) changed_.NotifyAll();
  }
  void End() {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  // False: they have ended before.
  bool Await(int64_t count) {
    MutexLock lock(mutex_);
    wanted_ = count;
    changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return count_ >= count || ended_; });
    return count_ >= count;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerUnaryReactor* EchoService::Once(grpc::CallbackServerContext* context, const v1::EchoMessage* request,
                                            v1::EchoMessage* answer) {
  answer->set_id(request->id());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerBidiReactor<v1::EchoMessage, v1::EchoMessage>* EchoService::Many(grpc::CallbackServerContext*) {
  return new EchoReactor;
}

absl::StatusOr<double> BareGrpc::UnaryRoundTrip(absl::Duration budget) const {
  v1::EchoMessage request, answer;
  return MicrosecondsEach(budget, [&] {
    grpc::ClientContext context;
    request.set_id(request.id() + 1);
    return FromGrpc(stub_->Once(&context, request, &answer));
  });
}

absl::StatusOr<double> BareGrpc::StreamRoundTrip(absl::Duration budget) const {
  grpc::ClientContext context;
  auto stream = stub_->Many(&context);
  v1::EchoMessage request, answer;
  auto each = MicrosecondsEach(budget, [&] {
    // An empty message would be an argument smaller than any: HTTP/2's windows need no update for it.
    request.set_id(request.id() + 1);
    return stream->Write(request) && stream->Read(&answer) ? absl::OkStatus() : Broken();
  });
  stream->WritesDone();
  absl::Status ended = FromGrpc(stream->Finish());
  if (!ended.ok()) return ended;
  return each;
}

absl::StatusOr<double> BareGrpc::StreamMessages(absl::Duration budget, int64_t payload_bytes, int64_t in_flight) const {
  grpc::ClientContext context;
  auto stream = stub_->Many(&context);
  Answers answers;
  std::thread reader([&] {
    v1::EchoMessage answer;
    while (stream->Read(&answer)) answers.Add();
    answers.End();
  });
  v1::EchoMessage request;
  request.set_payload(std::string(static_cast<size_t>(payload_bytes), 'x'));
  int64_t sent = 0, hinted = std::min(kHinted, in_flight);
  Monotonic begin = MonotonicNow();
  bool good = true;
  for (Monotonic end = begin + budget; good && (sent == 0 || MonotonicNow() < end);) {
    for (int64_t i = 1; i <= hinted && good; ++i) {
      grpc::WriteOptions options;
      if (i < hinted) options.set_buffer_hint();
      request.set_id(static_cast<uint64_t>(++sent));
      good = stream->Write(request, options);
    }
    good = good && (sent + hinted <= in_flight || answers.Await(sent + hinted - in_flight));
  }
  good = good && answers.Await(sent);
  absl::Duration took = MonotonicNow() - begin;
  stream->WritesDone();
  reader.join();
  absl::Status ended = FromGrpc(stream->Finish());
  if (!good || !ended.ok()) return ended.ok() ? Broken() : ended;
  return static_cast<double>(sent) / absl::ToDoubleSeconds(took);
}

}  // namespace troupe::bench
