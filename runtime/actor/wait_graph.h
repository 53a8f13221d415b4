// SPDX-License-Identifier: Apache-2.0
// WaitGraph: which actors of a process wait for which others before they take another message. Finds the wait that
// would close a circle, so that it is told as an error and does not hang until its deadline. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"

namespace troupe {

class WaitGraph {
 public:
  // `waiter` waits for the answers of all of `targets`. FAILED_PRECONDITION with CALL_DEADLOCK: one of them waits,
  // perhaps through others, for `waiter` (the message names the circle); nothing is noted then. One wait a time: a
  // later one takes the place of the one before. The number is for End.
  absl::StatusOr<uint64_t> Begin(const ActorLife& waiter, std::vector<ActorLife> targets);
  // To be called when the answers are there, not when the waiter has gone on: until then those that gave them are free
  // to wait for it. Again, or after a later Begin: nothing happens.
  void End(const ActorLife& waiter, uint64_t number);

 private:
  struct Wait {
    uint64_t number = 0;
    std::vector<ActorLife> targets;
  };
  using Waits = std::map<ActorLife, Wait>;
  static std::vector<ActorLife> CircleOf(const Waits& waits, const ActorLife& waiter,
                                         const std::vector<ActorLife>& targets);

  Mutex mutex_;
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  Waits waits_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
