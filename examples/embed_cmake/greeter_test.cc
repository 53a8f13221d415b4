// SPDX-License-Identifier: Apache-2.0
// A test of an actor in a simulation: no threads, no waiting, and the same order of messages for the same seed. Any
// test framework will do.
#include "greeter.h"

#include <cstdlib>
#include <iostream>

#include "runtime/testing/simulation.h"

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "not so: " << what << "\n";
  std::exit(1);
}

int main() {
  troupe::testing::Simulation simulation({.seed = troupe::testing::SeedFromEnvironment(1)});
  troupe::Ref<Greeter> greeter = simulation.Spawn<Greeter>({.name = "greeter"}, "Hi").value();
  troupe::Future<std::string> lost = greeter.Call<&Greeter::Greet>("Ada");
  Expect(simulation.Expect<&Greeter::Greet>("test", "greeter").ok(), "the greeting is delivered");
  Expect(simulation.LoseReply<&Greeter::Greet>("greeter", "test").ok(), "its reply is lost");
  Expect(lost.Get().status().code() == absl::StatusCode::kUnavailable, "the caller is told that it may have run");
  Expect(greeter.Call<&Greeter::Greeted>().Get().value() == 1, "it has run");
}
