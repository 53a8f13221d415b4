// SPDX-License-Identifier: Apache-2.0
// A supervised tree: a parent with children that fail, restart, and end with it.
#include <iostream>

#include "absl/time/clock.h"
#include "runtime/troupe.h"

// [child]
class Fetcher : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    life_ = static_cast<int64_t>(context.restarts());
    return absl::OkStatus();
  }
  std::string Fetch(const std::string& what) {
    if (what == "poison") throw std::runtime_error("cannot digest poison");
    return what + " in life " + std::to_string(life_);
  }

 private:
  int64_t life_ = 0;
};
TROUPE_ACTOR(Fetcher, TROUPE_METHODS(Fetch), TROUPE_INIT());
// [/child]

// [parent]
class Supervisor : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    troupe::SpawnOptions options;
    options.name = "fetcher";
    options.restart = {.max = 3, .window = absl::Minutes(10), .on_exception = true};
    absl::StatusOr<troupe::Ref<Fetcher>> fetcher = context.Spawn<Fetcher>(options);
    if (!fetcher.ok()) return fetcher.status();
    context.Monitor(*fetcher, [this](const troupe::ActorLife&, const troupe::v1::ExitCause& cause) {
      last_ = cause.text();  // In this actor's turn: no lock is needed.
    });
    return absl::OkStatus();
  }
  void OnStop(std::string_view reason) override { std::cout << "stopped: " << reason << "\n"; }
  std::string LastFailure() const { return last_; }

 private:
  std::string last_;
};
TROUPE_ACTOR(Supervisor, TROUPE_METHODS(LastFailure), TROUPE_INIT());
// [/parent]

int main() {
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  troupe::Ref<Supervisor> supervisor = runtime.Spawn<Supervisor>({.name = "supervisor"}).value();
  // [latest]
  troupe::Ref<Fetcher> fetcher = runtime.Find<Fetcher>("fetcher").value();
  (void)fetcher.Call<&Fetcher::Fetch>("poison").Get();  // INTERNAL: the method threw: cannot digest poison
  while (true) {
    absl::StatusOr<std::string> text = fetcher.Call<&Fetcher::Fetch>("bread").Get();
    if (text.ok()) {
      std::cout << *text << "\n";  // bread in life 1
      break;
    }
    // The old ref never reaches the successor; ask for the newest life, which may be on its way.
    absl::SleepFor(absl::Milliseconds(10));
    absl::StatusOr<troupe::Ref<Fetcher>> latest = runtime.Latest(fetcher);
    if (!latest.ok()) return 1;  // It failed too often and has ended for good.
    fetcher = *latest;
  }
  // [/latest]
  std::cout << supervisor.Call<&Supervisor::LastFailure>().Get().value() << "\n";
  (void)runtime.Stop(supervisor, "the work is done");  // Its children end with it.
  std::cout << runtime.List().size() << " actors left\n";
}
