// SPDX-License-Identifier: Apache-2.0
// The first actor: a class, its registration, calls to it, and what their errors say.
#include <iostream>

#include "runtime/troupe.h"

// [class]
class Counter : public troupe::Actor {
 public:
  explicit Counter(int64_t start) : value_(start) {}
  int64_t Add(int64_t n) { return value_ += n; }
  absl::StatusOr<int64_t> Divide(int64_t by) {
    if (by == 0) return absl::InvalidArgumentError("division by zero");
    return value_ / by;
  }

 private:
  int64_t value_;
};
TROUPE_ACTOR(Counter, TROUPE_METHODS(Add, Divide), TROUPE_INIT(int64_t));
// [/class]

// [many]
// Calls go out at once; the results are waited for together.
void CallMany(const troupe::Ref<Counter>& counter) {
  std::vector<troupe::Future<int64_t>> sums;
  for (int64_t n = 1; n <= 3; ++n) sums.push_back(counter.Call<&Counter::Add>(n));
  absl::Status all = troupe::WaitAll(sums);
  if (!all.ok()) return;
  for (troupe::Future<int64_t>& sum : sums) std::cout << sum.Get().value() << "\n";  // 16, 18, 21
}
// [/many]

// [errors]
void ShowErrors(troupe::Runtime& runtime, const troupe::Ref<Counter>& counter) {
  // The handler's own error arrives as it was.
  absl::Status handler = counter.Call<&Counter::Divide>(0).Get().status();
  std::cout << handler.message() << "\n";  // division by zero

  // Errors of the call itself carry a kind.
  (void)runtime.Stop(counter, "no longer needed");
  absl::Status died = counter.Call<&Counter::Add>(1).Get().status();
  if (troupe::CallErrorKindOf(died) == troupe::v1::CallError::CALL_DIED) {
    std::cout << died.message() << "\n";  // local/counter/0#1 died: no longer needed
  }
}
// [/errors]

// [main]
int main() {
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  troupe::Ref<Counter> counter = runtime.Spawn<Counter>({.name = "counter"}, 10).value();
  absl::StatusOr<int64_t> sum = counter.Call<&Counter::Add>(5).Get();
  std::cout << sum.value() << "\n";  // 15
  CallMany(counter);
  ShowErrors(runtime, counter);
}
// [/main]
