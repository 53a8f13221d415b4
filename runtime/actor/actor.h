// SPDX-License-Identifier: Apache-2.0
// Actor: the base of everything that is spawned. An actor has a mailbox and handles one message at a time, so its
// members need no lock. (The actor of a worker process, and one spawned with `own_thread`, always on the same thread.)
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
// A method returns R, void, absl::Status, absl::StatusOr<R>, or one of these:
//   Task<R>     a coroutine that awaits others without blocking a thread (task.h);
//   Stream<R>   a coroutine that yields many results (stream.h);
//   Future<R>   the actor takes its next message at once and the reply goes when the promise is set, by any thread: for
//               a long piece of work that is done elsewhere (a batch that is being generated) beside short ones.
// An exception that leaves a method becomes INTERNAL with its text, and the actor lives on, unless its restart policy
// says otherwise (spawn.h).
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/actor/actor_macros.h"
#include "runtime/actor/ref.h"

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
  // after the constructor and before OnStart; they stay the actor's. Their handlers run on gRPC's threads. Only of the
  // actor that a worker process was started for.
  virtual std::vector<grpc::Service*> Services() { return {}; }

  // Before the first message, in the actor's turn. An error ends this life, and the spawn if it is the first; whether
  // another one follows is the restart policy's to say (spawn.h). `context` lives as long as the actor.
  virtual absl::Status OnStart(ActorContext& context) {
    (void)context;
    return absl::OkStatus();
  }

  // After the last message, in the actor's turn, before the destructor. Messages that wait are answered UNAVAILABLE
  // first; a handler that runs is waited for (it may look at ActorContext::stopping()). A worker process is ended by
  // force when the grace is over; within a program the stop goes on.
  virtual void OnStop(std::string_view reason) { (void)reason; }
};

}  // namespace troupe
