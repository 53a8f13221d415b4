// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/progress_view.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

constexpr char kStep[] =
    R"({"training/global_step": 3, "critic/score/mean": 0.5, "response_length/mean": 4.25, "timing_s/step": 2.5,
        "perf/throughput": 310, "staleness/mean": 0, "actor/kl_loss": 0.01})";

TEST_CASE("ProgressView: a step is one line on a pipe", "[cli]") {
  ProgressView view;
  v1::Job job;
  job.mutable_progress()->set_total_steps(40);
  view.SetJob(job);
  CHECK(view.AddMetrics(kStep) == "step 3/40  reward 0.500  length 4.2  kl 0.0100  stale 0.0   2.50 s   310 tokens/s");
  CHECK(view.AddMetrics("not json") == "");
  CHECK(view.AddMetrics("[1]") == "");
}

TEST_CASE("ProgressView: a validation is shown beside its step", "[cli]") {
  ProgressView view;
  std::string line = view.AddMetrics(R"({"training/global_step": 10, "val-core/addition/reward/mean@16": 0.75})");
  CHECK(line == "step 10  validation: reward/mean@16 0.750");
  CHECK(view.validations() == std::vector<std::string>{"step 10: reward/mean@16 0.750"});
  // Before the first step nothing was trained.
  CHECK(view.AddMetrics(R"({"step": 0, "val-core/addition/reward/mean@16": 0.25})") ==
        "step 0  validation: reward/mean@16 0.250");
}

TEST_CASE("ProgressView: the panel fits the width and shows bar, curve, time left and roles", "[cli]") {
  ProgressView view;
  v1::Job job;
  job.mutable_spec()->set_name("addition");
  job.set_state(v1::JOB_RUNNING);
  job.mutable_progress()->set_total_steps(5);
  v1::RoleActivity* role = job.mutable_progress()->add_roles();
  role->set_role("rollout");
  role->set_doing("idle");
  role->set_waits_for("weights (0, 4)");
  view.SetJob(job);
  view.AddMetrics(kStep);
  std::string all;
  for (const std::string& line : view.Panel(60, 8.0, false)) {
    size_t width = 0;
    for (unsigned char c : line) width += (c & 0xC0) != 0x80;
    CHECK(width <= 60);
    all += line + "\n";
  }
  CHECK(all.find("step 3/5") != std::string::npos);
  CHECK(all.find("5.0s left") != std::string::npos);
  CHECK(all.find("waits for weights (0, 4)") != std::string::npos);
}

TEST_CASE("ProgressView: only the first line is bold, and no line is wider for it", "[cli]") {
  ProgressView view;
  v1::Job job;
  job.mutable_spec()->set_name(std::string(100, 'n'));
  v1::RoleActivity* role = job.mutable_progress()->add_roles();
  role->set_doing(std::string(100, 'd'));
  view.SetJob(job);
  std::vector<std::string> lines = view.Panel(40, 1, true);
  CHECK(lines[0] == "\x1b[1m" + std::string(40, 'n') + "\x1b[0m");
  CHECK(lines.back().size() == 40);
}

TEST_CASE("EventLine: tells what the user should know, and nothing else", "[cli]") {
  CHECK(EventLine(R"({"event":"checkpoint_damaged","reason":"step 3 is given up","level":"warning"})") ==
        "step 3 is given up");
  CHECK(EventLine(R"({"event":"checkpoint","reason":"step 3 is saved","level":"info"})") == "");
  CHECK(EventLine(R"({"event":"exited","reason":"by SIGKILL"})") == "");  // the head's: the panel shows it
  CHECK(EventLine(R"({"event":"call_failed","level":"warning"})") == "");
  CHECK(EventLine("[]") == "");
}

TEST_CASE("Sparkline: shows the whole history in its width", "[cli]") {
  CHECK(Sparkline({0, 1}, 10) == "▁█");
  CHECK(Sparkline({0, 0, 1, 1}, 2) == "▁█");
  CHECK(Sparkline({2, 2, 2}, 10) == "▅▅▅");
  CHECK(Sparkline({0, NAN, 1}, 10) == "▁ █");
  CHECK(Sparkline({}, 10) == "");
}

TEST_CASE("TextTable: columns line up and cells cannot move the cursor", "[cli]") {
  TextTable table({"A", "B"});
  table.Add({"x\x1b[2J", "1"});
  table.Add({"é", "22"});
  CHECK(table.ToText() == "A      B\nx [2J  1\né      22\n");
}

TEST_CASE("ShortDuration: is short and never wrong by a unit", "[cli]") {
  CHECK(ShortDuration(0.05) == "0.1s");
  CHECK(ShortDuration(59.9) == "59s");
  CHECK(ShortDuration(200) == "3m20s");
  CHECK(ShortDuration(7500) == "2h05m");
  CHECK(ShortDuration(NAN) == "-");
}

}  // namespace
}  // namespace troupe::cli
