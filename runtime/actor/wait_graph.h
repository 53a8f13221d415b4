// SPDX-License-Identifier: Apache-2.0
// WaitGraph: which actors of a process wait for which others before they take another message. Finds the wait that
// would close a circle within the process, so that it is told as an error and does not hang until its deadline; circles
// across processes are found from what it holds (runtime/transport/circle_finder.h). Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/actor/future_state.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"

namespace troupe {

// A call that has no answer yet, by its number at the router of the waiter.
struct WaitedCall {
  ActorLife target;
  uint64_t call = 0;
};

class WaitGraph {
 public:
  struct Wait {
    uint64_t number = 0;  // Of all waits of the process; grows.
    std::vector<WaitedCall> calls;
    const internal::FutureBase* gate = nullptr;  // As of Begin.

    // It is over also in the moment before End was called.
    bool over() const { return gate != nullptr && gate->IsSet(); }
  };

  // `waiter` waits for the answers of all of `calls`. FAILED_PRECONDITION with CALL_DEADLOCK: the target of one waits,
  // perhaps through others, for `waiter` (the message names the circle); nothing is noted then. One wait a time: a
  // later one takes the place of the one before. The number is for Answered and End.
  // `gate`: what ends the wait when it is set; null: End alone does. It lives until then.
  absl::StatusOr<uint64_t> Begin(const ActorLife& waiter, std::vector<WaitedCall> calls,
                                 const internal::FutureBase* gate = nullptr);
  // To be called when the answer is there, not when the waiter has gone on: until then those that gave it are free to
  // wait for the waiter. Again, or after a later Begin: nothing happens.
  void Answered(const ActorLife& waiter, uint64_t number, uint64_t call);
  // The same for the whole wait.
  void End(const ActorLife& waiter, uint64_t number);

  // What that actor waits for now.
  std::optional<Wait> Find(const ActorLife& waiter) const;
  // Those that wait now and have begun it when Begun() was `number_max` or less.
  std::vector<ActorLife> Waiting(uint64_t number_max) const;
  // Of the newest wait.
  uint64_t Begun() const;

  // `wake` runs, on any thread, when a wait begins after a Rest; the first such is now. Null: no more.
  void SetWake(std::function<void()> wake);
  // False: actors wait, or have begun to since `number`; it goes on then.
  bool Rest(uint64_t number);

 private:
  using Waits = std::map<ActorLife, Wait>;
  static std::vector<ActorLife> CircleOf(const Waits& waits, const ActorLife& waiter,
                                         const std::vector<WaitedCall>& calls);

  mutable Mutex mutex_;
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  Waits waits_ ABSL_GUARDED_BY(mutex_);
  bool resting_ ABSL_GUARDED_BY(mutex_) = true;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
};

// "a -> b -> a", for people: the first waits for the second, and so on; the last stands for the first.
std::string CircleText(const std::vector<ActorLife>& circle);

}  // namespace troupe
