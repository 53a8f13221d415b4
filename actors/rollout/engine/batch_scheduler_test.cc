// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/batch_scheduler.h"

#include <random>
#include <string>
#include <vector>

#include "catch2/catch.hpp"

namespace troupe::rollout {
namespace {

constexpr ModelVersion kVersion{.attempt = 0, .step = 1};

std::vector<int32_t> Tokens(int32_t begin, int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(begin + i);
  return tokens;
}

// "1:0+20! 2<1 copy" : sequence 1 computes positions 0..19 and completes; 2 follows it.
std::string Text(const StepPlan& plan) {
  std::string text;
  for (const ScheduledChunk& chunk : plan.chunks) {
    text += std::to_string(chunk.sequence) + ":" + std::to_string(chunk.begin) + "+" + std::to_string(chunk.count) +
            (chunk.completes ? "! " : " ");
  }
  for (const Follower& follower : plan.followers) {
    text += std::to_string(follower.sequence) + "<" + std::to_string(plan.chunks[follower.leader].sequence) + " ";
  }
  for (size_t i = 0; i < plan.copies.size(); ++i) text += "copy ";
  for (int64_t i = 0; i < plan.preempted; ++i) text += "preempted ";
  if (!text.empty()) text.pop_back();
  return text;
}

// Runs one step; every completed sequence gets the token 7.
std::string Step(BatchScheduler& scheduler) {
  const StepPlan plan = scheduler.Schedule(kVersion);
  scheduler.Computed(plan, kVersion);
  for (const ScheduledChunk& chunk : plan.chunks) {
    if (chunk.completes) scheduler.Append(chunk.sequence, 7);
  }
  for (const Follower& follower : plan.followers) scheduler.Append(follower.sequence, 7);
  scheduler.CheckInvariants();
  return Text(plan);
}

}  // namespace

TEST_CASE("BatchScheduler: the samples of one prompt compute it once and then part", "[batch_scheduler]") {
  BatchScheduler scheduler({.max_batch_tokens = 64, .max_running = 8, .num_pages = 32, .page_tokens = 8});
  scheduler.Add(1, Tokens(0, 20));
  scheduler.Add(2, Tokens(0, 20));
  scheduler.Add(3, Tokens(100, 4));
  scheduler.Add(4, Tokens(0, 20));
  CHECK(Step(scheduler) == "1:0+20! 3:0+4! 2<1 4<1");
  CHECK(scheduler.pages_used() == 4);
  CHECK(Step(scheduler) ==
        "1:20+1! 2:20+1! 3:4+1! 4:20+1! copy copy");  // the last holder of the shared tail writes in place
}

TEST_CASE("BatchScheduler: a later sample of a known prompt computes its last position only", "[batch_scheduler]") {
  BatchScheduler scheduler({.max_batch_tokens = 64, .max_running = 8, .num_pages = 32, .page_tokens = 8});
  scheduler.Add(1, Tokens(0, 20));
  CHECK(Step(scheduler) == "1:0+20!");
  CHECK(Step(scheduler) == "1:20+1!");
  scheduler.Add(2, Tokens(0, 20));
  CHECK(Step(scheduler) == "1:21+1! 2:19+1! copy");
}

TEST_CASE("BatchScheduler: a long prompt goes in chunks beside decoding", "[batch_scheduler]") {
  BatchScheduler scheduler({.max_batch_tokens = 16, .max_running = 8, .num_pages = 32, .page_tokens = 8});
  scheduler.Add(1, Tokens(0, 4));
  CHECK(Step(scheduler) == "1:0+4!");
  scheduler.Add(2, Tokens(100, 40));
  scheduler.Add(3, Tokens(100, 40));
  scheduler.Add(4, Tokens(200, 3));
  CHECK(Step(scheduler) == "1:4+1! 2:0+15");
  CHECK(Step(scheduler) == "1:5+1! 2:15+15");
  CHECK(Step(scheduler) == "1:6+1! 2:30+10! 4:0+3! 3<2");
  CHECK(Step(scheduler) == "1:7+1! 2:40+1! 3:40+1! 4:3+1!");
}

TEST_CASE("BatchScheduler: when pages run out the latest gives way and is computed again", "[batch_scheduler]") {
  BatchScheduler scheduler({.max_batch_tokens = 64, .max_running = 8, .num_pages = 4, .page_tokens = 8});
  scheduler.Add(1, Tokens(0, 16));
  scheduler.Add(2, Tokens(100, 15));
  CHECK(Step(scheduler) == "1:0+16! 2:0+15!");
  CHECK(Step(scheduler) == "1:16+1! preempted");
  CHECK(scheduler.waiting() == 1);
  CHECK(Step(scheduler) == "1:17+1!");  // too few pages for the other
  scheduler.Remove(1);
  CHECK(Step(scheduler) == "2:8+8!");  // its first page was still there
  CHECK(scheduler.tokens(2).size() == 17);
}

TEST_CASE("BatchScheduler: nobody overtakes a waiting sequence for want of pages", "[batch_scheduler]") {
  BatchScheduler scheduler({.max_batch_tokens = 64, .max_running = 8, .num_pages = 4, .page_tokens = 8});
  scheduler.Add(1, Tokens(0, 16));
  CHECK(Step(scheduler) == "1:0+16!");
  scheduler.Add(2, Tokens(100, 24));
  scheduler.Add(3, Tokens(200, 4));
  CHECK(Step(scheduler) == "1:16+1!");
  scheduler.Remove(1);
  CHECK(Step(scheduler) == "2:0+24! 3:0+4!");
}

TEST_CASE("BatchScheduler: after a new version everything is computed again", "[batch_scheduler]") {
  BatchScheduler scheduler({.max_batch_tokens = 64, .max_running = 8, .num_pages = 32, .page_tokens = 8});
  scheduler.Add(1, Tokens(0, 20));
  scheduler.Add(2, Tokens(0, 20));
  CHECK(Step(scheduler) == "1:0+20! 2<1");
  scheduler.RestartAll();
  scheduler.CheckInvariants();
  CHECK(scheduler.pages_used() == 0);
  CHECK(Step(scheduler) == "1:0+21! 2<1");  // both continued with the same token
}

TEST_CASE("BatchScheduler: pages kept over an update are not shared with newcomers", "[batch_scheduler]") {
  BatchScheduler scheduler({.max_batch_tokens = 16, .max_running = 8, .num_pages = 32, .page_tokens = 8});
  scheduler.Add(1, Tokens(0, 20));
  CHECK(Step(scheduler) == "1:0+16");
  scheduler.KeepPages();
  scheduler.Add(2, Tokens(0, 20));
  CHECK(Step(scheduler) == "1:16+4! 2:0+12");
  CHECK(scheduler.mixed(1));
  CHECK_FALSE(scheduler.mixed(2));
  CHECK(Step(scheduler) == "1:20+1! 2:12+8!");
}

TEST_CASE("BatchScheduler: random arrivals, ends and updates keep the accounts and let everything end",
          "[batch_scheduler]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&random](int n) { return static_cast<int>(random() % n); };
    SchedulerOptions options{.max_batch_tokens = 1 + draw(40), .max_running = 1 + draw(12), .page_tokens = 8};
    options.num_pages = 8 + draw(24);
    BatchScheduler scheduler(options);
    std::map<uint64_t, int64_t> left;  // sequence -> tokens until it ends
    uint64_t next = 1;
    for (int step = 0; step < 30000 && (step < 300 || !left.empty()); ++step) {
      if (step < 300 && draw(2) == 0) {
        const int32_t length = 1 + draw(40);
        scheduler.Add(next, Tokens(draw(3), length));
        left[next++] = 1 + draw(64 - length);
      }
      if (step < 300 && draw(25) == 0) draw(2) == 0 ? scheduler.RestartAll() : scheduler.KeepPages();
      if (step < 300 && draw(15) == 0 && !left.empty()) {
        scheduler.Remove(left.begin()->first);
        left.erase(left.begin());
      }
      const StepPlan plan = scheduler.Schedule(kVersion);
      int64_t batch_tokens = 0;
      std::vector<uint64_t> sampled;
      for (const ScheduledChunk& chunk : plan.chunks) {
        batch_tokens += chunk.count;
        if (chunk.completes) sampled.push_back(chunk.sequence);
      }
      for (const Follower& follower : plan.followers) sampled.push_back(follower.sequence);
      REQUIRE(batch_tokens <= options.max_batch_tokens);
      REQUIRE(scheduler.running() <= options.max_running);
      REQUIRE((left.empty() || batch_tokens > 0));  // always progress
      scheduler.Computed(plan, kVersion);
      for (uint64_t sequence : sampled) {
        if (--left.at(sequence) == 0) {
          scheduler.Remove(sequence);
          left.erase(sequence);
        } else {
          scheduler.Append(sequence, draw(3));
        }
      }
      scheduler.CheckInvariants();
    }
    CHECK(left.empty());
    CHECK(scheduler.pages_used() == 0);
  }
}

}  // namespace troupe::rollout
