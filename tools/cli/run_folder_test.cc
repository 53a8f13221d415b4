// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/run_folder.h"

#include <catch2/catch.hpp>

#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe::cli {
namespace {

struct Fixture {
  std::string dir = MakeTemporaryDirectory("run-folder").value();
  ~Fixture() { RemoveTree(dir).IgnoreError(); }

  JobConfig Config(const std::vector<std::string>& overrides = {}) {
    return LoadJobText(
               "name: a\nmodel: {path: m}\ndata: {train: t}\nroles: {reward: {function: numeric}}\n"
               "trainer: {total_steps: 4}\n",
               "job.yaml", dir, overrides)
        .value()
        .config;
  }
  absl::StatusOr<RunFolder> Prepare(JobConfig config, absl::Time now = absl::FromUnixSeconds(1000)) {
    return PrepareRunFolder(config, dir, now);
  }
  void Finish(const std::string& folder, int step) {
    REQUIRE(
        WriteFileAtomic(folder + "/summary.json", "{\"state\": \"succeeded\", \"step\": " + std::to_string(step) + "}")
            .ok());
  }
};

TEST_CASE("RunFolder: an unfinished run of the same job is continued, a finished one is not", "[run]") {
  Fixture f;
  std::string first = f.Prepare(f.Config()).value().path;
  RunFolder again = f.Prepare(f.Config({"trainer.save_freq=2"}), absl::FromUnixSeconds(2000)).value();
  CHECK(again.path == first);
  CHECK(again.continues);
  again.lock.Release();
  f.Finish(first, 4);
  CHECK(f.Prepare(f.Config(), absl::FromUnixSeconds(3000)).value().path != first);
}

TEST_CASE("RunFolder: a named folder that is finished says so, and is extended by more steps", "[run]") {
  Fixture f;
  std::vector<std::string> named = {"trainer.output_dir=" + f.dir + "/x"};
  f.Prepare(f.Config(named)).value();
  f.Finish(f.dir + "/x", 4);
  CHECK(f.Prepare(f.Config(named)).value().finished);
  named.push_back("trainer.total_steps=8");
  CHECK(f.Prepare(f.Config(named)).value().continues);
}

TEST_CASE("RunFolder: a folder of another job is refused with the difference", "[run]") {
  Fixture f;
  std::vector<std::string> named = {"trainer.output_dir=" + f.dir + "/x"};
  f.Prepare(f.Config(named)).value();
  named.push_back("rollout.n=4");
  absl::StatusOr<RunFolder> run = f.Prepare(f.Config(named));
  CHECK(run.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(MessageOf(run.status()).find("rollout.n: 8 -> 4") != std::string::npos);
}

TEST_CASE("RunFolder: a folder that a live run holds is refused", "[run]") {
  Fixture f;
  std::vector<std::string> named = {"trainer.output_dir=" + f.dir + "/x"};
  RunFolder held = f.Prepare(f.Config(named)).value();
  absl::StatusOr<RunFolder> second = f.Prepare(f.Config(named));
  CHECK(second.status().code() == absl::StatusCode::kAlreadyExists);
  CHECK(MessageOf(second.status()).find("another run (pid") != std::string::npos);
}

TEST_CASE("RunFolder: an unfinished run that cannot be gone on with is told, not left for a new one", "[run]") {
  Fixture f;
  std::string folder = f.Prepare(f.Config()).value().path;
  RemoveTree(folder + "/run.lock").IgnoreError();
  REQUIRE(MakeDirs(folder + "/run.lock").ok());  // No file, so it cannot be locked.
  absl::StatusOr<RunFolder> next = f.Prepare(f.Config());
  REQUIRE_FALSE(next.ok());
  CHECK(MessageOf(next.status()).find(folder) != std::string::npos);
}

}  // namespace
}  // namespace troupe::cli
