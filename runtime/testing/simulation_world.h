// SPDX-License-Identifier: Apache-2.0
// Simulation::World: what a simulation consists of: its actors, what is on its way between them, timers, virtual time
// and the seeded choice of what happens next. Private to this folder.
#pragma once

#include <compare>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/actor_host.h"
#include "runtime/actor/call_error.h"
#include "runtime/actor/death_book.h"
#include "runtime/actor/executor.h"
#include "runtime/actor/local_actors.h"
#include "runtime/object/object_store.h"
#include "runtime/testing/fiber_set.h"
#include "runtime/testing/simulation.h"
#include "runtime/transport/call_table.h"

namespace troupe::testing {

// Executor, router and waiter in one: everything that could be a choice or a clock. Owned by its Simulation and by the
// refs it gave out. Begin, then anything, then End, all on the test's thread; handlers run on fibers, of which one runs
// while all else stands still, so nothing here has a lock. While it lives it is how the test's thread waits.
class Simulation::World final : public Executor,
                                public CallRouter,
                                public internal::ThreadWaiter,
                                public std::enable_shared_from_this<Simulation::World> {
 public:
  explicit World(uint64_t seed) : seed_(seed), random_(seed), before_(std::exchange(ThreadWaiter::Current(), this)) {}

  void Begin() {
    ActorSetting setting;
    setting.self.path.job = JobId("simulation");
    router_ = shared_from_this();
    SetObjects(ObjectStore::Create({.name = "simulation"}));
    actors_ = std::make_unique<LocalActors>(
        std::move(setting), host_, router_, *this,
        [this](const ActorLife& life, const v1::ExitCause& cause) { MarkDead(life, cause); });
  }
  // Refs may outlive this; what they ask for then is refused.
  void End() {
    bool ended = actors_->Shutdown("the simulation ends", Monotonic::Infinite());
    ended_ = true;  // Handlers that wait for what never comes go on without it.
    while (Step()) {
    }
    if (!ended) actors_->Shutdown("the simulation ends", Monotonic::Infinite());
    for (OpenCall& call : calls_.TakeAll()) {
      call.reply(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "the simulation has ended"));
    }
    channels_.clear();
    tasks_.clear();
    timers_.clear();
    actors_ = nullptr;
    router_ = nullptr;
    ThreadWaiter::Current() = before_;
  }

  // As of Simulation; times are virtual.
  bool Step();
  void AdvanceTo(Monotonic end);
  absl::Status Deliver(const std::string& what, const std::string& from, const std::string& to, bool lose);
  std::vector<std::string> OnTheirWay() const;
  // That life has ended: who watches it is told, and calls to it end with CALL_DIED.
  void MarkDead(const ActorLife& life, const v1::ExitCause& cause);

  // Executor. Tasks and timers run in an order that the seed draws.
  Monotonic Now() const override { return now_; }
  void Post(Task task) override { tasks_.push_back(std::move(task)); }
  uint64_t PostAt(Monotonic when, std::function<void()> task) override {
    timers_.emplace(std::pair(when, ++timers_made_), std::move(task));
    return timers_made_;
  }
  bool CancelTimer(uint64_t id) override {
    return std::erase_if(timers_, [id](const auto& timer) { return timer.first.second == id; }) > 0;
  }
  bool Wait(internal::FutureBase& future, Monotonic deadline) override {
    fibers_.Wait(future, deadline);
    return future.IsSet();
  }
  bool simulated() const override { return true; }

  // CallRouter. Calls and replies wait in channels until they are delivered.
  uint64_t Call(const ActorAddress& target, OutgoingCall&& outgoing) override;
  absl::Status Send(const ActorAddress& target, std::string method, std::string arguments) override;
  void Cancel(uint64_t id) override;
  void Grant(uint64_t id, size_t items, size_t bytes) override;
  uint64_t Watch(const ActorAddress& target, EndedCallback ended) override;
  void Unwatch(uint64_t watch) override { deaths_.Unwatch(watch); }

  // ThreadWaiter: of the test's own thread, which lets things happen meanwhile. FAILED_PRECONDITION: nothing is left
  // that could; DEADLINE_EXCEEDED.
  absl::Status Wait(internal::FutureBase& gate, std::span<internal::FutureBase* const>, Monotonic deadline) override;

  LocalActors& actors() { return *actors_; }
  const std::shared_ptr<CallRouter>& router() const { return router_; }
  const std::string& trace() const { return trace_; }
  uint64_t seed() const { return seed_; }

 private:
  // Virtual time begins a second after zero, so that "long ago" can be said.
  static constexpr int64_t kStartNs = 1'000'000'000;

  struct Message {
    std::string what;  // The method, "reply of " it, or "item of " it.
    uint64_t call = 0;
    std::function<void()> arrive;
  };
  // Messages of one sender to one receiver: in order within, in any order between channels.
  struct Channel {
    std::string from, to;
    ActorLife life;  // The actor's, of the two.
    friend auto operator<=>(const Channel&, const Channel&) = default;
  };
  using Channels = std::map<Channel, std::deque<Message>>;

  void Put(Channel channel, Message message) { channels_[std::move(channel)].push_back(std::move(message)); }
  void DeliverFrom(Channels::iterator channel);
  void RunTask(size_t index);
  // Everything that can go on without a delivery.
  void Settle();
  std::vector<size_t> Resumable() const;
  // When something happens next if nothing can now: a deadline or a timer; infinite: never.
  Monotonic NextTime() const;
  void PassTimeTo(Monotonic time);
  void PostDueTimers();
  void Complete(uint64_t id, absl::StatusOr<std::string> result);

  const uint64_t seed_;
  bool ended_ = false;
  std::mt19937_64 random_;
  internal::ThreadWaiter* const before_;
  Monotonic now_ = Monotonic::FromNanoseconds(kStartNs);
  std::deque<std::function<void()>> tasks_;
  uint64_t timers_made_ = 0;
  std::map<std::pair<Monotonic, uint64_t>, std::function<void()>> timers_;
  Channels channels_;
  CallTable calls_;
  DeathBook deaths_;
  std::string trace_;
  ActorHost host_;
  std::shared_ptr<CallRouter> router_;
  std::unique_ptr<LocalActors> actors_;
  FiberSet fibers_;
};

}  // namespace troupe::testing
