// SPDX-License-Identifier: Apache-2.0
// Simulation: a whole program of actors in one thread of control, for tests. Time is virtual: it passes only when
// nothing else can happen, so an hour's timeout costs nothing. Which message is delivered next is drawn from a seed:
// the same seed gives the same run, another one another order (that of each sender to each actor is kept, as
// everywhere).
//
//   troupe::testing::Simulation simulation({.seed = troupe::testing::SeedFromEnvironment(1)});
//   troupe::Ref<Counter> counter = simulation.Spawn<Counter>({.name = "counter"}, 10).value();
//   troupe::Future<int64_t> sum = counter.Call<&Counter::Add>(5);
//   CHECK(simulation.Expect<&Counter::Add>("test", "counter").ok());   // delivered now, and handled
//   CHECK(sum.Get().value() == 15);                                    // Get lets everything go on until it is there
//   CHECK(simulation.trace() == golden);
//
// A test that failed is run again with TROUPE_SEED set to the seed it named. Everything happens on the test's thread
// and on threads that stand still while another runs; do not touch actors from threads of your own. Callbacks (Then)
// run where the reply is delivered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/actor.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/group.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/spawn.h"
#include "runtime/actor/spawn_actor.h"
#include "runtime/base/monotonic.h"

namespace troupe::testing {

struct SimulationOptions {
  uint64_t seed = 1;
};

// The number in TROUPE_SEED; `otherwise` when it is not set.
uint64_t SeedFromEnvironment(uint64_t otherwise);

class Simulation {
 public:
  // How the test itself is called in Expect and in the trace.
  static constexpr char kTest[] = "test";

  explicit Simulation(SimulationOptions options = {});
  // Stops the actors, children with their parents.
  ~Simulation();

  // As of Runtime (runtime/embed/runtime.h); `own_thread` has no effect.
  template <typename T, typename... Args>
  absl::StatusOr<Ref<T>> Spawn(const SpawnOptions& options, Args&&... args) {
    return internal::SpawnActor<T>(spawner(), router(), options, nullptr, std::forward<Args>(args)...);
  }
  template <typename T>
  absl::StatusOr<Ref<T>> Find(const std::string& name) {
    return internal::FindActor<T>(spawner(), router(), name);
  }
  template <typename T>
  absl::Status Stop(const Ref<T>& ref, const std::string& reason, absl::Duration grace = absl::Seconds(30)) {
    return spawner().Stop(ref.life(), reason, grace);
  }
  // Ends the actor as if its process were killed: no OnStop; its policy decides about a next life.
  template <typename T>
  void Crash(const Ref<T>& ref) {
    Crash(ref.life());
  }

  // One thing that can happen now. False: nothing can, unless time passes.
  bool Step();
  // Steps until nothing can happen now.
  void Run();
  // Runs, and lets that much time pass, with all that happens in it.
  void Advance(absl::Duration duration);
  Monotonic Now() const;

  // Delivers the next message on its way from one actor (by name; or kTest) to another and lets the receiver handle it;
  // nothing else is delivered. FAILED_PRECONDITION: the next message there is not a call of that method, or there is
  // none; the text lists what is on its way, and the seed.
  template <auto kMethod, typename T = typename internal::MethodTraits<decltype(kMethod)>::Class>
  absl::Status Expect(const std::string& from, const std::string& to) {
    return Deliver(internal::WireName<T, kMethod>(), from, to, false);
  }
  // The same for the reply of such a call, from the actor that was called.
  template <auto kMethod, typename T = typename internal::MethodTraits<decltype(kMethod)>::Class>
  absl::Status ExpectReply(const std::string& from, const std::string& to) {
    return Deliver(kReplyOf + internal::WireName<T, kMethod>(), from, to, false);
  }
  // Loses that message, as a connection that breaks does: its call ends with CALL_UNAVAILABLE. Errors as of Expect.
  template <auto kMethod, typename T = typename internal::MethodTraits<decltype(kMethod)>::Class>
  absl::Status Lose(const std::string& from, const std::string& to) {
    return Deliver(internal::WireName<T, kMethod>(), from, to, true);
  }
  template <auto kMethod, typename T = typename internal::MethodTraits<decltype(kMethod)>::Class>
  absl::Status LoseReply(const std::string& from, const std::string& to) {
    return Deliver(kReplyOf + internal::WireName<T, kMethod>(), from, to, true);
  }

  // What is on its way, a line each: "test -> counter: Counter.Add".
  std::vector<std::string> OnTheirWay() const;
  // What was delivered so far, a line each: "0.250s test -> counter: Counter.Add".
  std::string trace() const;
  uint64_t seed() const;

  ActorSpawner& spawner();
  const std::shared_ptr<CallRouter>& router() const;

 private:
  static constexpr char kReplyOf[] = "reply of ";
  class World;

  absl::Status Deliver(const std::string& what, const std::string& from, const std::string& to, bool lose);
  void Crash(const ActorLife& life);

  std::shared_ptr<World> world_;
};

}  // namespace troupe::testing
