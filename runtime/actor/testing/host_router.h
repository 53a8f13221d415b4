// SPDX-License-Identifier: Apache-2.0
// HostRouter: the smallest CallRouter, for tests of actors: it delivers straight to a host and keeps no time.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "runtime/actor/actor_host.h"
#include "runtime/actor/call_error.h"
#include "runtime/env/clock.h"

namespace troupe::testing {

class HostRouter : public CallRouter, public std::enable_shared_from_this<HostRouter> {
 public:
  // `doors`: calls go to the mailboxes without this router where they can.
  explicit HostRouter(ActorHost& host, bool doors = false) : host_(host), doors_(doors) {}

  ActorPlace Locate(ActorAddress address) const override {
    return doors_ ? host_.Locate(std::move(address)) : CallRouter::Locate(std::move(address));
  }
  uint64_t Call(const ActorAddress& target, OutgoingCall&& call) override {
    uint64_t id = 0;
    std::shared_ptr<StreamSink> sink;
    if (call.item) sink = std::make_shared<StreamSink>(std::move(call.item), call.window);
    {
      MutexLock lock(mutex_);
      id = ++made_;
      open_[id] = {target.life, std::move(call.reply), sink};
    }
    host_.Deliver(target.life,
                  {std::move(call.method),
                   std::move(call.arguments),
                   MonotonicNow() + call.timeout,
                   [self = shared_from_this(), id](absl::StatusOr<std::string> result) { self->Finish(id, result); },
                   sink,
                   {this, id}});
    return id;
  }
  absl::Status Send(const ActorAddress& target, std::string method, std::string arguments) override {
    return host_.TryDeliver(
        target.life,
        {std::move(method), std::move(arguments), MonotonicNow() + kCallTimeoutDefault, nullptr, nullptr, {}});
  }
  void Cancel(uint64_t id) override {
    Open call = Find(id);
    if (!call.reply) return;
    if (call.sink != nullptr) call.sink->Cancel();
    host_.CancelCall(call.target, {this, id});
    Finish(id, CallErrorStatus(v1::CallError::CALL_CANCELLED, "cancelled"));
  }
  void Grant(uint64_t id, size_t items, size_t bytes) override {
    if (Open call = Find(id); call.sink != nullptr) call.sink->Grant(items, bytes);
  }
  uint64_t Watch(const ActorAddress&, EndedCallback) override { return 1; }
  void Unwatch(uint64_t) override {}

 private:
  struct Open {
    ActorLife target;
    ReplyCallback reply;
    std::shared_ptr<StreamSink> sink;
  };

  Open Find(uint64_t id) {
    MutexLock lock(mutex_);
    auto found = open_.find(id);
    return found == open_.end() ? Open() : found->second;
  }
  void Finish(uint64_t id, const absl::StatusOr<std::string>& result) {
    Open call = Find(id);
    {
      MutexLock lock(mutex_);
      if (open_.erase(id) == 0) return;
    }
    call.reply(result);
  }

  ActorHost& host_;
  const bool doors_;
  Mutex mutex_;
  uint64_t made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe::testing
