// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "actors/pipeline/pipeline_simulation.h"
#include "runtime/actor/call_error.h"

namespace troupe {
namespace {

SimulationOptions Job(int64_t staleness, int64_t rollouts, uint32_t seed) {
  SimulationOptions options;
  options.pipeline.train_batch_size = 4;
  options.pipeline.samples = 3;
  options.pipeline.max_staleness = staleness;
  options.pipeline.rollout_replicas = rollouts;
  options.pipeline.reward_replicas = 1 + seed % 2;
  options.pipeline.reference_replicas = seed % 2;
  options.pipeline.total_steps = 9;
  options.pipeline.save_freq = 3;
  options.seed = seed;
  return options;
}

std::vector<std::vector<std::string>> GroupsOf(const TrainedHistory& history) {
  std::vector<std::vector<std::string>> steps;
  for (const auto& rows : history.steps) {
    std::vector<std::string>& groups = steps.emplace_back();
    for (const std::string& row : rows) {
      std::string group = row.substr(0, row.rfind('-'));
      if (groups.empty() || groups.back() != group) groups.push_back(group);
    }
  }
  return steps;
}

void RequireClean(PipelineSimulation& simulation) {
  REQUIRE(simulation.Run());
  CAPTURE(simulation.finish()->reason);
  for (const std::string& text : simulation.violations()) FAIL_CHECK(text);
  REQUIRE(simulation.finish()->succeeded);
}

}  // namespace

TEST_CASE("Pipeline: on-policy, each step trains the next prompts of the epoch's order once", "[pipeline]") {
  PipelineSimulation simulation(Job(0, 1, 1));
  RequireClean(simulation);
  std::vector<std::vector<std::string>> steps = GroupsOf(simulation.history());
  REQUIRE(steps.size() == 9);
  std::vector<uint64_t> prompts(12);
  for (uint64_t i = 0; i < 12; ++i) prompts[i] = i;
  PromptOrder order(prompts, true, 7);
  for (uint64_t sequence = 0; sequence < 36; ++sequence)
    CHECK(steps[sequence / 4][sequence % 4] == order.At(sequence).GroupId());
}

TEST_CASE("Pipeline: on-policy with deaths of every role trains bit by bit what it trains without", "[pipeline]") {
  for (int64_t rollouts : {1, 3}) {
    for (uint32_t seed = 0; seed < 40; ++seed) {
      CAPTURE(rollouts, seed);
      PipelineSimulation calm(Job(0, rollouts, seed % 2));
      RequireClean(calm);
      SimulationOptions options = Job(0, rollouts, seed);
      options.kills = 25;
      PipelineSimulation stormy(options);
      RequireClean(stormy);
      REQUIRE(stormy.history() == calm.history());
      for (int64_t step = 1; step <= 9; ++step) REQUIRE(stormy.metrics().contains(step));
    }
  }
}

TEST_CASE("Pipeline: what reward functions tell of rows is a metric of the step that trains them, also after deaths",
          "[pipeline]") {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    SimulationOptions options = Job(0, 2, seed);
    options.kills = 25;
    PipelineSimulation simulation(options);
    RequireClean(simulation);
    for (int64_t step = 1; step <= 9; ++step) {
      const std::map<std::string, double>& metrics = simulation.metrics().at(step);
      REQUIRE(metrics.contains("reward/right"));
      CHECK(metrics.at("reward/right") == metrics.at("critic/score/mean"));
    }
  }
}

TEST_CASE("Pipeline: a version that could not be published after its step is published again", "[pipeline]") {
  for (int64_t staleness : {0, 2}) {
    for (int failures : {1, 3}) {
      PipelineSimulation calm(Job(staleness, 2, 1));
      RequireClean(calm);
      SimulationOptions options = Job(staleness, 2, 1);
      options.publish_failures = failures;
      PipelineSimulation simulation(options);
      RequireClean(simulation);
      REQUIRE(GroupsOf(simulation.history()) == GroupsOf(calm.history()));
    }
  }
}

TEST_CASE("Pipeline: a trainer that cannot be reached for a checkpoint is asked again, rarer and not for ever",
          "[pipeline]") {
  auto run = [](int save_failures, int64_t save_freq, std::optional<int> stop_after = std::nullopt) {
    SimulationOptions options = Job(0, 2, 1);
    options.save_failures = save_failures;
    options.pipeline.save_freq = save_freq;
    options.stop_after = stop_after;
    auto simulation = std::make_unique<PipelineSimulation>(options);
    REQUIRE(simulation->Run());
    CHECK(simulation->violations().empty());
    return simulation;
  };
  auto calm = run(0, 3), back_soon = run(5, 3), given_up = run(kCallAttemptsMax, 3), never = run(1 << 20, 0);
  CHECK(back_soon->finish()->succeeded);
  CHECK(back_soon->checkpoints_begun() == 3 + 5);
  CHECK(back_soon->history() == calm->history());
  CHECK(given_up->finish()->succeeded);  // goes on with the checkpoint of the next save_freq steps
  CHECK(given_up->checkpoints_begun() == 2 + kCallAttemptsMax);
  CHECK(given_up->history() == calm->history());
  CHECK_FALSE(never->finish()->succeeded);
  CHECK(never->checkpoints_begun() == kCallAttemptsMax);
  CHECK(never->finish()->reason.find("checkpoint of step 9") != std::string::npos);
  for (int stop = 100; stop < 500; stop += 20) run(kCallAttemptsMax, 3, stop);  // ends, also where one was given up
}

TEST_CASE("Pipeline: checkpoints are removed only after the log names a newer one", "[pipeline]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    SimulationOptions options = Job(0, 2, seed);
    options.pipeline.save_freq = 1;
    options.kills = 40;
    options.max_checkpoints = 1;
    PipelineSimulation simulation(options);
    RequireClean(simulation);
  }
}

TEST_CASE("Pipeline: asynchronous with deaths of every role trains the same groups in the same steps", "[pipeline]") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    PipelineSimulation calm(Job(2, 2, seed % 2));
    RequireClean(calm);
    SimulationOptions options = Job(2, 2, seed);
    options.kills = 25;
    PipelineSimulation stormy(options);
    RequireClean(stormy);
    REQUIRE(GroupsOf(stormy.history()) == GroupsOf(calm.history()));
    for (const auto& [step, metrics] : stormy.metrics()) {
      if (step > 0) REQUIRE(metrics.at("staleness/max") <= 2);
    }
  }
}

TEST_CASE("Pipeline: on-policy trains no token of older weights", "[pipeline]") {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    SimulationOptions options = Job(0, 2, seed);
    options.kills = 15;
    options.program_fault_of = 9;
    PipelineSimulation simulation(options);
    RequireClean(simulation);
    for (const auto& [step, metrics] : simulation.metrics()) {
      if (step > 0) REQUIRE(metrics.at("staleness/max") == 0);
    }
  }
}

TEST_CASE("PipelineDurable: a snapshot brings back what the reward program failed on, and forgets what was released",
          "[pipeline]") {
  PipelineOptions options = Job(0, 1, 0).pipeline;
  options.train_batch_size = 1;
  PipelineDurable fresh(options, PromptOrder({0, 1}, false, 1));
  auto apply = [](PipelineDurable& durable, auto fill) {
    v1::PipelineRecord record;
    fill(record);
    REQUIRE(durable.Apply(record).ok());
  };
  PipelineDurable durable = fresh;
  apply(durable, [](v1::PipelineRecord& record) { record.mutable_dispatched()->add_sequences(0); });
  apply(durable, [&](v1::PipelineRecord& record) {
    v1::IndexedGroup* group = record.mutable_generated()->add_groups();
    for (const char* row : {"a", "b", "c"}) {
      v1::RowMeta* meta = group->add_rows()->mutable_meta();
      meta->set_row_id(row);
      meta->set_group_id(fresh.order().At(0).GroupId());
      meta->set_sample_index(row[0] - 'a');
    }
  });
  v1::PipelineSnapshot queued = durable.Snapshot();
  apply(durable, [](v1::PipelineRecord& record) {
    for (const char* row : {"a", "b", "c"}) {
      record.mutable_scored()->add_rows()->set_row_id(row);
      record.mutable_scored()->mutable_rows()->rbegin()->set_dropped(row != std::string("a"));
    }
  });
  REQUIRE(durable.DroppedFraction() > 0.6);
  PipelineDurable recovered = fresh;
  apply(recovered, [&](v1::PipelineRecord& record) { *record.mutable_snapshot() = durable.Snapshot(); });
  CHECK(recovered.DroppedFraction() == durable.DroppedFraction());
  apply(durable, [&](v1::PipelineRecord& record) { *record.mutable_snapshot() = queued; });
  CHECK(durable.TakeReleased().empty());
  CHECK(durable.DroppedFraction() == 0);
}

TEST_CASE("Pipeline: when the newest checkpoint is damaged it goes back to the whole one before it", "[pipeline]") {
  for (int64_t damaged : {3, 6}) {
    for (uint32_t seed = 0; seed < 60; ++seed) {
      CAPTURE(damaged, seed);
      PipelineSimulation calm(Job(0, 2, seed % 2));
      RequireClean(calm);
      SimulationOptions options = Job(0, 2, seed);
      options.kills = 25;
      options.damaged_step = damaged;
      options.max_checkpoints = static_cast<int>(seed % 3);  // of one, the beginning is what is left
      PipelineSimulation damaged_run(options);
      RequireClean(damaged_run);
      REQUIRE(damaged_run.history() == calm.history());
    }
  }
}

TEST_CASE("Pipeline: stopped at any moment and resumed it trains what an undisturbed run does", "[pipeline]") {
  for (int stop = 1; stop < 400; stop += 13) {
    CAPTURE(stop);
    PipelineSimulation whole(Job(0, 2, 1));
    RequireClean(whole);
    SimulationOptions options = Job(0, 2, 1);
    options.stop_after = stop;
    PipelineSimulation halves(options);
    RequireClean(halves);
    halves.Resume(std::nullopt);
    RequireClean(halves);
    REQUIRE_FALSE(halves.finish()->interrupted);
    REQUIRE(halves.history() == whole.history());
  }
}

TEST_CASE("Pipeline: an asynchronous run keeps its finished rows over stop and resume", "[pipeline]") {
  for (int stop = 20; stop < 400; stop += 17) {
    CAPTURE(stop);
    PipelineSimulation whole(Job(2, 2, 0));
    RequireClean(whole);
    SimulationOptions options = Job(2, 2, 0);
    options.stop_after = stop;
    options.kills = 5;
    PipelineSimulation halves(options);
    RequireClean(halves);
    halves.Resume(std::nullopt);
    RequireClean(halves);
    REQUIRE(GroupsOf(halves.history()) == GroupsOf(whole.history()));
  }
}

TEST_CASE("Pipeline: rows of a failing reward program are dropped, their groups go on or are refilled", "[pipeline]") {
  SimulationOptions options = Job(0, 1, 3);
  options.program_fault_of = 5;
  PipelineSimulation simulation(options);
  RequireClean(simulation);
  std::set<std::string> seen;
  size_t rows = 0;
  for (const auto& groups : GroupsOf(simulation.history())) {
    CHECK(groups.size() == 4);
    for (const std::string& group : groups) CHECK(seen.insert(group).second);
  }
  for (const auto& step : simulation.history().steps) rows += step.size();
  CHECK(rows < 9 * 12);
  CHECK(rows >= 9 * 8);
}

TEST_CASE("Pipeline: groups that the engine cannot make are refilled and counted as such", "[pipeline]") {
  SimulationOptions options = Job(0, 2, 3);
  options.not_generated_of = 5;
  PipelineSimulation simulation(options);
  RequireClean(simulation);
  const std::map<std::string, double>& last = simulation.metrics().at(9);
  double dropped = last.at("groups/dropped_not_generated");
  CHECK(dropped > 0);
  CHECK(last.at("training/last_group") == 35 + dropped);  // each one's place was taken by the next
  CHECK(last.at("groups/dropped_quarantined") == 0);
  CHECK(last.at("groups/dropped_stale") == 0);
}

TEST_CASE("Pipeline: validation leaves rows of a failing reward program out of its means and counts them",
          "[pipeline]") {
  SimulationOptions options = Job(0, 2, 3);
  options.pipeline.val_prompts = {100, 101, 102, 103, 104, 105};
  options.pipeline.val_samples = 4;
  options.pipeline.test_freq = 9;
  options.pipeline.max_dropped_fraction = 1;  // of few rows many may fail by chance
  options.program_fault_of = 5;
  PipelineSimulation simulation(options);
  RequireClean(simulation);
  double dropped = simulation.metrics().at(9).at("val-aux/val/rows/dropped");
  CHECK(dropped > 0);
  CHECK(dropped < 30);
  options.program_fault_of = 0;
  PipelineSimulation calm(options);
  RequireClean(calm);
  CHECK(calm.metrics().at(9).at("val-aux/val/rows/dropped") == 0);
  CHECK(calm.metrics().at(9).at("val-aux/val/rows/not_generated") == 0);
  options.not_generated_of = 3;
  PipelineSimulation unmade(options);
  RequireClean(unmade);
  double missing = unmade.metrics().at(9).at("val-aux/val/rows/not_generated");
  CHECK(missing > 0);
  CHECK(missing < 30);
}

TEST_CASE("Pipeline: a reward program that always fails ends the job with a reason", "[pipeline]") {
  SimulationOptions options = Job(0, 1, 3);
  options.program_fault_of = 1;
  PipelineSimulation simulation(options);
  REQUIRE(simulation.Run());
  CHECK_FALSE(simulation.finish()->succeeded);
  CHECK(simulation.finish()->reason.find("max_dropped_fraction") != std::string::npos);
}

TEST_CASE("Pipeline: a call whose failure cannot pass ends the job at once, one that may pass is repeated",
          "[pipeline]") {
  auto run = [](const absl::Status& failure) {
    SimulationOptions options = Job(0, 1, 0);
    options.score_failures = 1;
    options.score_failure = failure;
    PipelineSimulation simulation(options);
    REQUIRE(simulation.Run());
    return *simulation.finish();
  };
  CHECK(run(absl::ResourceExhaustedError("too many open files")).succeeded);
  CHECK(run(CallErrorStatus(v1::CallError::CALL_OVERLOADED, "the mailbox is full")).succeeded);
  FinishPipeline too_large = run(CallErrorStatus(v1::CallError::CALL_TOO_LARGE, "the result has 9 MiB"));
  CHECK_FALSE(too_large.succeeded);
  CHECK(too_large.reason.find("the result has 9 MiB") != std::string::npos);
  CHECK(too_large.error_code == 0);
  FinishPipeline users = run(absl::InvalidArgumentError("reward.py: has no function score"));
  CHECK_FALSE(users.succeeded);
  CHECK(users.error_code == static_cast<int>(absl::StatusCode::kInvalidArgument));
  CHECK(run(absl::InternalError("the reward program crashes")).error_code == 0);
  CHECK(run(CallErrorStatus(v1::CallError::CALL_MALFORMED, "arguments of another type")).error_code == 0);
}

TEST_CASE("Pipeline: a full disk ends the job with a reason after some tries", "[pipeline]") {
  SimulationOptions options = Job(0, 2, 0);
  options.disk_full_at = 4;
  PipelineSimulation simulation(options);
  REQUIRE(simulation.Run());
  CHECK_FALSE(simulation.finish()->succeeded);
  CHECK(simulation.finish()->reason.find("no space in the folder") != std::string::npos);
}

TEST_CASE("Pipeline: validation runs before training, at its steps and at the end, through deaths", "[pipeline]") {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    SimulationOptions options = Job(seed % 2, 2, seed);
    options.kills = static_cast<int>(seed * 2);
    options.pipeline.val_prompts = {100, 101, 102};
    options.pipeline.val_samples = 4;
    options.pipeline.val_before_train = true;
    options.pipeline.test_freq = 4;
    PipelineSimulation simulation(options);
    RequireClean(simulation);
    for (int64_t step = 0; step <= 9; ++step) {
      CAPTURE(seed, step);
      bool due = step == 0 || step == 4 || step == 8 || step == 9;
      REQUIRE(simulation.metrics().contains(step));
      CHECK(simulation.metrics().at(step).contains("val-core/val/reward/mean@4") == due);
      CHECK(simulation.metrics().at(step).contains("critic/score/mean") == (step > 0));
    }
  }
}

}  // namespace troupe
