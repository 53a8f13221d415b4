// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/local_calls.h"

#include <catch2/catch.hpp>
#include <vector>

namespace troupe {
namespace {

class Call : public internal::FoundCall {
 public:
  void Cancel() override {}
  const ActorLife* waited_for() const override { return nullptr; }
  uint64_t number() const override { return 0; }
  void Fail(absl::Status) override {}
};

Monotonic At(int64_t second) { return Monotonic::FromNanoseconds(second * 1'000'000'000); }

TEST_CASE("LocalCalls: those that are armed come due in order, and a sooner one is told", "[local]") {
  LocalCalls calls;
  int sooner = 0;
  calls.SetTimer([&sooner] { ++sooner; });
  CHECK(calls.NextDeadline().infinite());
  auto second = std::make_shared<Call>(), first = std::make_shared<Call>(), gone = std::make_shared<Call>();
  calls.Arm(second, At(20));
  calls.Arm(first, At(10));
  calls.Arm(gone, At(15));
  gone = nullptr;
  CHECK(sooner == 2);
  CHECK(calls.NextDeadline() == At(10));
  CHECK(calls.TakeDue(At(9)).empty());
  CHECK(calls.TakeDue(At(25)) == std::vector<std::shared_ptr<LocalCalls::Call>>{first, second});
  CHECK(calls.NextDeadline().infinite());
}

TEST_CASE("LocalCalls: those that have ended do not pile up", "[local]") {
  LocalCalls calls;
  auto lasting = std::make_shared<Call>();
  calls.Arm(lasting, At(1'000'000));
  for (int64_t i = 0; i < 20'000; ++i) calls.Arm(std::make_shared<Call>(), At(500'000 + i));
  // All that are due are gone: only those that were not looked for yet were kept.
  CHECK(calls.armed() <= 4096 + 1);
  CHECK(calls.TakeDue(At(2'000'000)).size() == 1);
  CHECK(calls.armed() == 0);
}

TEST_CASE("LocalCalls: a call is found by its number until it is forgotten or gone", "[local]") {
  LocalCalls calls;
  auto one = std::make_shared<Call>(), other = std::make_shared<Call>();
  uint64_t number = calls.Number(one), others = calls.Number(other);
  CHECK(number != others);
  CHECK(calls.Find(number) == one);
  calls.Forget(number);
  CHECK(calls.Find(number) == nullptr);
  CHECK(calls.Find(others) == other);
  other = nullptr;
  CHECK(calls.Find(others) == nullptr);
  CHECK(calls.Find(7) == nullptr);
}

}  // namespace
}  // namespace troupe
