// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/wait_graph.h"

#include <deque>
#include <string>
#include <utility>

#include "runtime/actor/call_error.h"

namespace troupe {

// The circle that `waiter` would close by waiting for `calls`: from the target to `waiter`; empty when there is none.
// Breadth first, each actor once: many ways may lead to the same one, and a way may be as long as there are actors.
std::vector<ActorLife> WaitGraph::CircleOf(const Waits& waits, const ActorLife& waiter,
                                           const std::vector<WaitedCall>& calls) {
  std::map<ActorLife, const ActorLife*> reached_from;
  std::deque<const ActorLife*> open;
  auto reach = [&](const ActorLife& life, const ActorLife* from) {
    auto [at, is_new] = reached_from.emplace(life, from);
    if (is_new) open.push_back(&at->first);
  };
  for (const WaitedCall& call : calls) reach(call.target, nullptr);
  while (!open.empty()) {
    const ActorLife* life = open.front();
    open.pop_front();
    if (*life == waiter) {
      std::vector<ActorLife> circle;
      for (; life != nullptr; life = reached_from.at(*life)) circle.insert(circle.begin(), *life);
      return circle;
    }
    auto found = waits.find(*life);
    if (found == waits.end() || found->second.over()) continue;
    for (const WaitedCall& next : found->second.calls) reach(next.target, life);
  }
  return {};
}

absl::StatusOr<uint64_t> WaitGraph::Begin(const ActorLife& waiter, std::vector<WaitedCall> calls,
                                          const internal::FutureBase* gate) {
  uint64_t number = 0;
  std::function<void()> wake;
  {
    MutexLock lock(mutex_);
    if (std::vector<ActorLife> circle = CircleOf(waits_, waiter, calls); !circle.empty()) {
      circle.insert(circle.begin(), waiter);
      std::string what = circle.size() == 2 ? "an actor cannot wait for a call to itself"
                                            : "these actors would wait for each other for ever";
      return CallErrorStatus(v1::CallError::CALL_DEADLOCK, what + ": " + CircleText(circle));
    }
    number = ++begun_;
    waits_[waiter] = {number, std::move(calls), gate};
    if (resting_ && wake_) wake = wake_;
    if (wake) resting_ = false;
  }
  if (wake) wake();
  return number;
}

void WaitGraph::Answered(const ActorLife& waiter, uint64_t number, uint64_t call) {
  MutexLock lock(mutex_);
  auto found = waits_.find(waiter);
  if (found == waits_.end() || found->second.number != number) return;
  std::erase_if(found->second.calls, [call](const WaitedCall& waited) { return waited.call == call; });
}

void WaitGraph::End(const ActorLife& waiter, uint64_t number) {
  MutexLock lock(mutex_);
  auto found = waits_.find(waiter);
  if (found != waits_.end() && found->second.number == number) waits_.erase(found);
}

std::optional<WaitGraph::Wait> WaitGraph::Find(const ActorLife& waiter) const {
  MutexLock lock(mutex_);
  auto found = waits_.find(waiter);
  if (found == waits_.end()) return std::nullopt;
  return found->second;
}

std::vector<ActorLife> WaitGraph::Waiting(uint64_t number_max) const {
  MutexLock lock(mutex_);
  std::vector<ActorLife> waiting;
  for (const auto& [life, wait] : waits_) {
    if (wait.number <= number_max) waiting.push_back(life);
  }
  return waiting;
}

uint64_t WaitGraph::Begun() const {
  MutexLock lock(mutex_);
  return begun_;
}

void WaitGraph::SetWake(std::function<void()> wake) {
  MutexLock lock(mutex_);
  wake_ = std::move(wake);
  resting_ = true;
}

bool WaitGraph::Rest(uint64_t number) {
  MutexLock lock(mutex_);
  resting_ = waits_.empty() && begun_ <= number;
  return resting_;
}

std::string CircleText(const std::vector<ActorLife>& circle) {
  std::string text;
  for (const ActorLife& life : circle) text += (text.empty() ? "" : " -> ") + life.ToString();
  return text;
}

}  // namespace troupe
