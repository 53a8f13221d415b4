// SPDX-License-Identifier: Apache-2.0
// Actors in processes of their own: each counts the primes of a part.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <set>
#include <vector>

#include "runtime/troupe.h"

struct Range {
  int64_t first = 0;
  int64_t end = 0;
};
TROUPE_STRUCT(Range, first, end);

class PrimeCounter : public troupe::Actor {
 public:
  int64_t Count(const Range& range) const {
    int64_t primes = 0;
    for (int64_t n = std::max<int64_t>(range.first, 2); n < range.end; ++n) primes += IsPrime(n) ? 1 : 0;
    return primes;
  }
  int64_t Pid() const { return ::getpid(); }

 private:
  static bool IsPrime(int64_t n) {
    for (int64_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return true;
  }
};
TROUPE_ACTOR(PrimeCounter, TROUPE_METHODS(Count, Pid), TROUPE_INIT());

// [main]
int main() {
  // Early in main: in the actors' processes, which run this very program, this call does not return.
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  absl::StatusOr<troupe::Group<PrimeCounter>> counters =
      runtime.SpawnGroup<PrimeCounter>(2, {.name = "counter", .cpus = 0.5});
  if (!counters.ok()) {
    std::cerr << counters.status().message() << "\n";
    return 1;
  }
  std::vector<Range> parts = {{0, 60000}, {60000, 100000}};
  std::cout << counters->Scatter<&PrimeCounter::Count>(parts).Reduce(std::plus<>()).value() << " primes\n";  // 9592

  std::set<int64_t> processes = {::getpid()};
  for (int64_t pid : counters->Broadcast<&PrimeCounter::Pid>().All().value()) processes.insert(pid);
  std::cout << processes.size() << " processes\n";  // 3
}
// [/main]
