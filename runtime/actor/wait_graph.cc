// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/wait_graph.h"

#include <string>
#include <utility>

#include "runtime/actor/call_error.h"

namespace troupe {

// Whether `from` waits for `waiter`; `circle` names the actors from `from` on. The graph has no circle yet, so this
// ends; its depth is the number of actors that wait for each other.
bool WaitGraph::Reaches(const Waits& waits, const ActorLife& from, const ActorLife& waiter, std::string& circle) {
  std::string before = circle;
  circle += " -> " + from.ToString();
  if (from == waiter) return true;
  if (auto found = waits.find(from); found != waits.end()) {
    for (const ActorLife& next : found->second.targets) {
      if (Reaches(waits, next, waiter, circle)) return true;
    }
  }
  circle = std::move(before);
  return false;
}

absl::StatusOr<uint64_t> WaitGraph::Begin(const ActorLife& waiter, std::vector<ActorLife> targets) {
  MutexLock lock(mutex_);
  for (const ActorLife& target : targets) {
    std::string circle = waiter.ToString();
    if (!Reaches(waits_, target, waiter, circle)) continue;
    std::string what = target == waiter ? "an actor cannot wait for a call to itself"
                                        : "these actors would wait for each other for ever";
    return CallErrorStatus(v1::CallError::CALL_DEADLOCK, what + ": " + circle);
  }
  waits_[waiter] = {++begun_, std::move(targets)};
  return begun_;
}

void WaitGraph::End(const ActorLife& waiter, uint64_t number) {
  MutexLock lock(mutex_);
  auto found = waits_.find(waiter);
  if (found != waits_.end() && found->second.number == number) waits_.erase(found);
}

}  // namespace troupe
