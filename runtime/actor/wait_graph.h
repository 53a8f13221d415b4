// SPDX-License-Identifier: Apache-2.0
// WaitGraph: which actors of a process wait for which others before they take another message. Finds the wait that
// would close a circle, so that it is told as an error and does not hang until its deadline. Any thread.
#pragma once

#include <map>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"

namespace troupe {

class WaitGraph {
 public:
  // `waiter` waits for the answers of all of `targets`. FAILED_PRECONDITION with CALL_DEADLOCK: one of them waits,
  // perhaps through others, for `waiter` (the message names the circle); nothing is noted then. One wait a time.
  absl::Status Begin(const ActorLife& waiter, std::vector<ActorLife> targets);
  void End(const ActorLife& waiter);

 private:
  Mutex mutex_;
  std::map<ActorLife, std::vector<ActorLife>> waits_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
