// SPDX-License-Identifier: Apache-2.0
// AnswerReactor: one RPC that is answered by a step of the deciding thread. It holds no thread while it waits.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

#include "runtime/rpc/status.h"
#include "scheduler/server/calls.h"

namespace troupe::scheduler {

class AnswerReactor final : public grpc::ServerUnaryReactor {
 public:
  // Posts the event that `post` makes for the call and finishes the RPC with what `fill` says of an OK answer; `fill`
  // may write to the response, which lives until then. Ends earlier when the caller's deadline passes or it is gone:
  // the decision is made all the same. Owned by itself.
  static AnswerReactor* Start(Calls* calls, const std::function<bool(CallId)>& post,
                              std::function<absl::Status(Answer)> fill) {
    auto* reactor = new AnswerReactor(calls);
    reactor->call_ = calls->Ask(post, [reactor, fill = std::move(fill)](Answer answer) {
      absl::Status status = answer.status;
      reactor->Finish(ToGrpc(status.ok() ? fill(std::move(answer)) : status));
    });
    return reactor;
  }

  void OnCancel() override {
    if (!calls_->Forget(call_)) return;
    Finish(ToGrpc(absl::CancelledError("the caller no longer waits; what it asked for goes on")));
  }
  void OnDone() override { delete this; }

 private:
  explicit AnswerReactor(Calls* calls) : calls_(calls) {}

  Calls* const calls_;
  CallId call_ = 0;  // gRPC calls OnCancel and OnDone only after it was set: when the handler has returned.
};

}  // namespace troupe::scheduler
