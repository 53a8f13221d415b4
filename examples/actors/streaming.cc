// SPDX-License-Identifier: Apache-2.0
// A method that yields many results, read while it goes on, and left before its end.
#include <iostream>

#include "runtime/troupe.h"

// [producer]
class Primes : public troupe::Actor {
 public:
  // Yields for ever: it is ahead of its reader by a window at most, and ends with it.
  troupe::Stream<int64_t> From(int64_t first) {
    for (int64_t n = std::max<int64_t>(first, 2);; ++n) {
      if (IsPrime(n)) co_yield n;
    }
    co_return absl::OkStatus();
  }

 private:
  static bool IsPrime(int64_t n) {
    for (int64_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return true;
  }
};
TROUPE_ACTOR(Primes, TROUPE_METHODS(From), TROUPE_INIT());
// [/producer]

int main() {
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  troupe::Ref<Primes> primes = runtime.Spawn<Primes>({}).value();
  // [consumer]
  troupe::StreamReader<int64_t> numbers = primes.Stream<&Primes::From>(100);
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<std::optional<int64_t>> number = numbers.Next().Get();
    if (!number.ok() || !number->has_value()) break;  // An error, or the stream's end.
    std::cout << **number << "\n";                    // 101, 103, 107
  }
  numbers.Cancel();  // So does dropping the reader.
  // [/consumer]
}
