// SPDX-License-Identifier: Apache-2.0
// An actor in a process of its own: it dies, and its caller is told why and goes on with the next life.
#include <unistd.h>

#include <iostream>

#include "absl/time/clock.h"
#include "runtime/troupe.h"

class Fragile : public troupe::Actor {
 public:
  int64_t Pid() const { return ::getpid(); }
  void Die() { ::_exit(7); }
};
TROUPE_ACTOR(Fragile, TROUPE_METHODS(Pid, Die), TROUPE_INIT());

// [main]
int main() {
  // In the actor's process this call does not return: the program becomes its worker. So it stands early in main.
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  troupe::SpawnOptions options = {.name = "fragile", .cpus = 0.5, .restart = {.max = 3}};
  troupe::Ref<Fragile> fragile = runtime.Spawn<Fragile>(options).value();
  bool elsewhere = fragile.Call<&Fragile::Pid>().Get().value() != ::getpid();
  std::cout << (elsewhere ? "in another process\n" : "in this process\n");

  (void)fragile.Call<&Fragile::Die>().Get();  // CALL_DIED, or CALL_UNAVAILABLE: it may have run.
  absl::StatusOr<troupe::Ref<Fragile>> next = fragile;
  for (; next.ok() && !next->Call<&Fragile::Pid>().Get().ok(); next = runtime.Latest(fragile)) {
    absl::SleepFor(absl::Milliseconds(10));  // The next life is on its way; after several deaths it is held back.
  }
  absl::Status died = fragile.Call<&Fragile::Pid>().Get().status();
  std::cout << troupe::CallErrorOf(died).cause().exit_code() << "\n";  // 7
}
// [/main]
