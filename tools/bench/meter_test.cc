// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/meter.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/env/clock.h"
#include "tools/bench/processor_use.h"

namespace troupe::bench {
namespace {

Work Calls() {
  Work work;
  work.name = "calls";
  work.unit = "calls/s";
  work.limit = Limit{"the machine", nullptr};
  return work;
}

TEST_CASE("Figure: a ratio is of what was measured together, not of the medians", "[bench]") {
  Work work = Calls();
  work.target_ratio = 0.5;
  Figure figure{.samples = {10, 20, 90}, .limits = {20, 80, 100}};
  CHECK(figure.Ratios() == std::vector<double>{0.5, 0.25, 0.9});
  CHECK(Median(figure.Ratios()) == 0.5);
  CHECK(Reached(work, figure) == true);
  work.target_ratio = 0.51;
  CHECK(Reached(work, figure) == false);
  work.more_is_better = false;
  CHECK(Reached(work, figure) == true);
}

TEST_CASE("Figure: of two targets both have to be reached, and without one nothing is said", "[bench]") {
  Work work = Calls();
  Figure figure{.samples = {10, 30}, .limits = {20, 60}};
  CHECK(Reached(work, figure) == std::nullopt);
  work.target = 20;
  CHECK(Reached(work, figure) == true);
  work.target_ratio = 0.6;
  CHECK(Reached(work, figure) == false);
}

TEST_CASE("Figure: its line has the keys that scripts read", "[bench]") {
  Work work = Calls();
  work.target = 15;
  Figure figure{.samples = {10, 30, 20}, .limits = {40, 40, 40}, .others = 0.2};
  nlohmann::json line = nlohmann::json::parse(JsonLine(work, figure));
  CHECK(line["name"] == "calls");
  CHECK(line["unit"] == "calls/s");
  CHECK(line["median"] == 20);
  CHECK(line["min"] == 10);
  CHECK(line["max"] == 30);
  CHECK(line["n"] == 3);
  CHECK(line["limit"] == 40);
  CHECK(line["limit_name"] == "the machine");
  CHECK(line["clean"] == false);
  CHECK(line["reached"] == true);
  work.limit.reset();
  figure.limits.clear();
  CHECK(nlohmann::json::parse(JsonLine(work, figure))["limit"].is_null());
}

TEST_CASE("Meter: measures what is wanted, the limit before each sample, and counts what failed", "[bench]") {
  Meter meter({.repeats = 3, .seconds = absl::ZeroDuration(), .only = {"a", "bc"}, .json = true});
  CHECK(meter.Wants("abc"));
  CHECK(meter.Wants("bcd"));
  CHECK_FALSE(meter.Wants("b"));
  std::string order;
  bool prepared = false;
  Work good{.name = "a_good", .unit = "", .sample = [&](absl::Duration) -> absl::StatusOr<double> {
              order += 's';
              return 1.0;
            }};
  good.limit = Limit{"limit", [&](absl::Duration) -> absl::StatusOr<double> {
                       order += 'l';
                       return 2.0;
                     }};
  Work unwanted{.name = "x", .unit = "", .sample = [&](absl::Duration) -> absl::StatusOr<double> {
                  order += 'x';
                  return 1.0;
                }};
  Work bad{.name = "bc", .unit = "", .sample = [](absl::Duration) -> absl::StatusOr<double> {
             return absl::UnavailableError("away");
           }};
  meter.Run({unwanted}, [&] {
    prepared = true;
    return absl::OkStatus();
  });
  CHECK_FALSE(prepared);
  meter.Run({good, unwanted, bad}, [] { return absl::OkStatus(); });
  CHECK(order == "slslsls");  // The first is the warm-up.
  CHECK(meter.measured() == 1);
  CHECK(meter.failed() == 1);
  meter.Run({good, bad}, [] { return absl::InternalError("no processes"); });
  CHECK(meter.failed() == 3);
}

TEST_CASE("ProcessorUse: what this process uses is not of others, and a child belongs to it", "[bench]") {
  pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  std::vector<pid_t> tree = ProcessTree(::getpid());
  CHECK(tree.front() == ::getpid());
  CHECK(std::find(tree.begin(), tree.end(), child) != tree.end());
  ::kill(child, SIGKILL);
  CHECK(MemoryOf(::getpid()).value() > 100'000);
  ProcessorUse use;
  absl::Duration before = ProcessorTimeOf(::getpid());
  Monotonic begin = MonotonicNow();
  constexpr absl::Duration kOwn = absl::Milliseconds(300), kTicks = absl::Milliseconds(60);
  while (ProcessorTimeOf(::getpid()) - before < kOwn && MonotonicNow() - begin < absl::Seconds(30)) {
  }
  double others = use.OthersShare();
  absl::Duration all = (MonotonicNow() - begin) * std::max(1U, std::thread::hardware_concurrency());
  CHECK(all * others <= all - kOwn + kTicks);
}

}  // namespace
}  // namespace troupe::bench
