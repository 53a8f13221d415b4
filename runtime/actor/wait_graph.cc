// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/wait_graph.h"

#include <deque>
#include <string>
#include <utility>

#include "runtime/actor/call_error.h"

namespace troupe {

// The circle that `waiter` would close by waiting for `targets`: from the target to `waiter`; empty when there is none.
// Breadth first, each actor once: many ways may lead to the same one, and a way may be as long as there are actors.
std::vector<ActorLife> WaitGraph::CircleOf(const Waits& waits, const ActorLife& waiter,
                                           const std::vector<ActorLife>& targets) {
  std::map<ActorLife, const ActorLife*> reached_from;
  std::deque<const ActorLife*> open;
  auto reach = [&](const ActorLife& life, const ActorLife* from) {
    auto [at, is_new] = reached_from.emplace(life, from);
    if (is_new) open.push_back(&at->first);
  };
  for (const ActorLife& target : targets) reach(target, nullptr);
  while (!open.empty()) {
    const ActorLife* life = open.front();
    open.pop_front();
    if (*life == waiter) {
      std::vector<ActorLife> circle;
      for (; life != nullptr; life = reached_from.at(*life)) circle.insert(circle.begin(), *life);
      return circle;
    }
    auto found = waits.find(*life);
    if (found == waits.end()) continue;
    for (const ActorLife& next : found->second.targets) reach(next, life);
  }
  return {};
}

absl::StatusOr<uint64_t> WaitGraph::Begin(const ActorLife& waiter, std::vector<ActorLife> targets) {
  MutexLock lock(mutex_);
  if (std::vector<ActorLife> circle = CircleOf(waits_, waiter, targets); !circle.empty()) {
    std::string text = waiter.ToString();
    for (const ActorLife& life : circle) text += " -> " + life.ToString();
    std::string what = circle.size() == 1 ? "an actor cannot wait for a call to itself"
                                          : "these actors would wait for each other for ever";
    return CallErrorStatus(v1::CallError::CALL_DEADLOCK, what + ": " + text);
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
