// SPDX-License-Identifier: Apache-2.0
// Actor: the base of everything that is spawned. An actor has a mailbox and handles one message at a time, always on
// the same thread, so its members need no lock.
//
//   class Counter : public troupe::Actor {
//    public:
//     explicit Counter(int64_t start) : value_(start) {}
//     int64_t Add(int64_t n) { return value_ += n; }
//    private:
//     int64_t value_;
//   };
//   TROUPE_ACTOR(Counter, TROUPE_METHODS(Add), TROUPE_INIT(int64_t));
//
// A method returns R, void, absl::Status, absl::StatusOr<R>, or Future<R>. With a Future the actor takes its next
// message at once and the reply goes when the promise is set: this is how a long piece of work (a batch that is being
// generated) and a short one (new weights) overlap; the promise may be set from any thread. An exception that leaves a
// method becomes INTERNAL with its text, and the actor lives on.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/actor/actor_macros.h"

namespace grpc {
class Service;
}

namespace troupe {

class ActorContext;

class Actor {
 public:
  Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  virtual ~Actor() = default;

  // Further gRPC services of this actor, served beside its methods by its process (RowStore, WeightSource). Asked once,
  // after the constructor and before OnStart; they stay the actor's. Their handlers run on gRPC's threads.
  virtual std::vector<grpc::Service*> Services() { return {}; }

  // Before the first message, on the actor's thread. An error ends the worker; the scheduler starts another by its
  // policy. `context` lives as long as the actor.
  virtual absl::Status OnStart(ActorContext& context) {
    (void)context;
    return absl::OkStatus();
  }

  // After the last message, on the actor's thread, before the destructor. Messages that wait are answered UNAVAILABLE
  // first; a handler that runs is waited for (it may look at ActorContext::stopping()). The process is ended by force
  // when the grace is over.
  virtual void OnStop(std::string_view reason) { (void)reason; }
};

}  // namespace troupe
