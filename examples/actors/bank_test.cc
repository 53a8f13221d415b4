// SPDX-License-Identifier: Apache-2.0
// How a user tests actors: virtual time, a seeded order of delivery, messages delivered one by one.
#include <catch2/catch.hpp>

#include "runtime/testing/simulation.h"
#include "runtime/troupe.h"

class Account : public troupe::Actor {
 public:
  absl::Status Withdraw(int64_t amount) {
    if (amount > balance_) return absl::FailedPreconditionError("not enough");
    balance_ -= amount;
    return absl::OkStatus();
  }
  void Deposit(int64_t amount) { balance_ += amount; }
  int64_t Balance() const { return balance_; }

 private:
  int64_t balance_ = 100;
};
TROUPE_ACTOR(Account, TROUPE_METHODS(Withdraw, Deposit, Balance), TROUPE_INIT());

class Clerk : public troupe::Actor {
 public:
  Clerk(troupe::Ref<Account> from, troupe::Ref<Account> to) : from_(std::move(from)), to_(std::move(to)) {}
  troupe::Task<absl::Status> Transfer(int64_t amount) {
    absl::Status withdrawn = co_await from_.Call<&Account::Withdraw>(amount);
    if (!withdrawn.ok()) co_return withdrawn;
    co_return co_await to_.Call<&Account::Deposit>(amount);
  }

 private:
  troupe::Ref<Account> from_, to_;
};
TROUPE_ACTOR(Clerk, TROUPE_METHODS(Transfer), TROUPE_INIT(troupe::Ref<Account>, troupe::Ref<Account>));

// [seeds]
TEST_CASE("Bank: whatever the order of transfers, no money is made or lost", "[bank]") {
  uint64_t first = troupe::testing::SeedFromEnvironment(1);
  for (uint64_t seed = first; seed < first + 50; ++seed) {
    troupe::testing::Simulation simulation({.seed = seed});
    INFO("repeat with TROUPE_SEED=" << seed);
    auto a = simulation.Spawn<Account>({.name = "a"}).value();
    auto b = simulation.Spawn<Account>({.name = "b"}).value();
    auto there = simulation.Spawn<Clerk>({.name = "there"}, a, b).value();
    auto back = simulation.Spawn<Clerk>({.name = "back"}, b, a).value();
    std::vector<troupe::Future<void>> transfers;
    for (int64_t amount : {70, 60, 50}) {
      transfers.push_back(there.Call<&Clerk::Transfer>(amount));
      transfers.push_back(back.Call<&Clerk::Transfer>(amount + 20));
    }
    CHECK(troupe::WaitAll(transfers).ok());
    CHECK(a.Call<&Account::Balance>().Get().value() + b.Call<&Account::Balance>().Get().value() == 200);
  }
}
// [/seeds]

// [timer]
class Interest : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    context.Every(absl::Hours(24), [this] { ++days_; });
    return absl::OkStatus();
  }
  int64_t Days() const { return days_; }

 private:
  int64_t days_ = 0;
};
TROUPE_ACTOR(Interest, TROUPE_METHODS(Days), TROUPE_INIT());

TEST_CASE("Bank: interest is due each day", "[bank]") {
  troupe::testing::Simulation simulation;
  auto interest = simulation.Spawn<Interest>({.name = "interest"}).value();
  simulation.Advance(absl::Hours(7 * 24));
  CHECK(interest.Call<&Interest::Days>().Get().value() == 7);
}
// [/timer]

// [expect]
TEST_CASE("Bank: a deposit whose reply is lost is told as unavailable, and may have run", "[bank]") {
  troupe::testing::Simulation simulation;
  auto a = simulation.Spawn<Account>({.name = "a"}).value();
  auto b = simulation.Spawn<Account>({.name = "b"}).value();
  auto clerk = simulation.Spawn<Clerk>({.name = "clerk"}, a, b).value();
  troupe::Future<void> transfer = clerk.Call<&Clerk::Transfer>(30);
  REQUIRE(simulation.Expect<&Clerk::Transfer>("test", "clerk").ok());
  REQUIRE(simulation.Expect<&Account::Withdraw>("clerk", "a").ok());
  REQUIRE(simulation.ExpectReply<&Account::Withdraw>("a", "clerk").ok());
  REQUIRE(simulation.Expect<&Account::Deposit>("clerk", "b").ok());
  REQUIRE(simulation.LoseReply<&Account::Deposit>("b", "clerk").ok());
  CHECK(transfer.Get().code() == absl::StatusCode::kUnavailable);
  CHECK(b.Call<&Account::Balance>().Get().value() == 130);
}
// [/expect]
