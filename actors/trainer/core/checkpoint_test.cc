// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/checkpoint.h"

#include <functional>
#include <string>
#include <vector>

#include "actors/trainer/core/file_digest.h"
#include "catch2/catch.hpp"
#include "runtime/env/file.h"

namespace troupe {
namespace {

// A folder of its own for one test, removed at its end.
struct Root {
  std::string path = MakeTemporaryDirectory("checkpoint").value();
  ~Root() { (void)RemoveTree(path); }
};

void Write(const std::string& path, const std::string& content) { REQUIRE(WriteFileAtomic(path, content).ok()); }

void Commit(const std::string& root, int64_t step, const std::string& content) {
  const std::string dir = BeginCheckpoint(root, step).value();
  Write(dir + "/model.safetensors", content);
  REQUIRE(MakeDirs(dir + "/controller").ok());
  Write(dir + "/controller/queue.json", "[]");
  REQUIRE(CommitCheckpoint(root, step).ok());
}

}  // namespace

TEST_CASE("Checkpoint: nothing is there before the commit, all of it after", "[checkpoint]") {
  const Root root;
  const std::string dir = BeginCheckpoint(root.path, 3).value();
  Write(dir + "/part", "x");
  CHECK(ListCheckpoints(root.path)->empty());
  CHECK(absl::IsNotFound(LatestCheckpoint(root.path, nullptr).status()));
  REQUIRE(CommitCheckpoint(root.path, 3).ok());
  const CheckpointInfo latest = LatestCheckpoint(root.path, nullptr).value();
  CHECK(latest.step == 3);
  CHECK(ReadFile(latest.dir + "/part", 10).value() == "x");
}

TEST_CASE("Checkpoint: a flipped bit, a cut file or a lost one is refused and the previous one used", "[checkpoint]") {
  const Root root;
  Commit(root.path, 1, "good");
  for (const auto& spoil : std::vector<std::function<void(const std::string&)>>{
           [](const std::string& dir) { Write(dir + "/model.safetensors", "gooe"); },
           [](const std::string& dir) { Write(dir + "/model.safetensors", "goo"); },
           [](const std::string& dir) { REQUIRE(RemoveTree(dir + "/controller").ok()); },
           [](const std::string& dir) { Write(dir + "/MANIFEST.json", "{"); },
           [](const std::string& dir) { Write(dir + "/MANIFEST.json", R"({"format": 1, "step": 2, "files": []})"); },
           [](const std::string& dir) {
             Write(dir + "/MANIFEST.json",
                   "{\"format\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}");
           }}) {
    Commit(root.path, 2, "good");
    REQUIRE(LatestCheckpoint(root.path, nullptr)->step == 2);
    spoil(root.path + "/step_2");
    std::vector<std::string> refused;
    CHECK(LatestCheckpoint(root.path, &refused)->step == 1);
    CHECK(refused.size() == 1);
    CHECK(VerifyCheckpoint(root.path + "/step_2").code() == absl::StatusCode::kDataLoss);
  }
}

TEST_CASE("Checkpoint: pruning keeps the newest and removes attempts that never were committed", "[checkpoint]") {
  const Root root;
  for (int64_t step : {2, 10, 9}) Commit(root.path, step, "x");
  REQUIRE(BeginCheckpoint(root.path, 11).ok());
  REQUIRE(PruneCheckpoints(root.path, 10, 2).ok());
  const std::vector<CheckpointInfo> left = ListCheckpoints(root.path).value();
  REQUIRE(left.size() == 2);
  CHECK(left[0].step == 9);
  CHECK(left[1].step == 10);
  CHECK(ListDirectory(root.path)->size() == 2);
}

TEST_CASE("Checkpoint: a course that goes back gives up what is later; neither the newest nor pruning takes it",
          "[checkpoint]") {
  const Root root;
  for (int64_t step : {10, 20, 30, 40}) Commit(root.path, step, "first course");
  CHECK(GiveUpCheckpointsAfter(root.path, 10)->size() == 3);
  CHECK(GiveUpCheckpointsAfter(root.path, 10)->empty());
  CHECK(LatestCheckpoint(root.path, nullptr)->step == 10);
  CHECK(VerifyCheckpoint(root.path + "/step_40.given_up").ok());
  Commit(root.path, 20, "second course");
  REQUIRE(PruneCheckpoints(root.path, 20, 1).ok());
  CHECK(*ListDirectory(root.path) == std::vector<std::string>{"step_20", "step_40.given_up"});
  CHECK(ReadFile(root.path + "/step_20/model.safetensors", 100).value() == "second course");
}

TEST_CASE("Checkpoint: pruning never takes the one just committed, whatever is later", "[checkpoint]") {
  const Root root;
  for (int64_t step : {40, 10}) Commit(root.path, step, "x");
  REQUIRE(PruneCheckpoints(root.path, 10, 1).ok());
  CHECK(*ListDirectory(root.path) == std::vector<std::string>{"step_10", "step_40"});
}

TEST_CASE("Checkpoint: a step made again takes the place of the earlier one", "[checkpoint]") {
  const Root root;
  Commit(root.path, 4, "first");
  Commit(root.path, 4, "second");
  CHECK(ReadFile(LatestCheckpoint(root.path, nullptr)->dir + "/model.safetensors", 100).value() == "second");
  CHECK(ListDirectory(root.path)->size() == 1);
}

TEST_CASE("Checkpoint: the digest is SHA-256", "[checkpoint]") {
  const Root root;
  Write(root.path + "/abc", "abc");
  CHECK(DigestFile(root.path + "/abc")->sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace troupe
