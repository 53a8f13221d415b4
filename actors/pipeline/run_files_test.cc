// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/run_files.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/env/file.h"

namespace troupe {
namespace {

int Lines(const std::string& path) {
  std::string content = *ReadFile(path, 1 << 20);
  return static_cast<int>(std::count(content.begin(), content.end(), '\n'));
}

}  // namespace

TEST_CASE("RunFiles: a step's line is written once, also over a restart that tore the last line", "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("run-files-test");
  {
    auto files = *RunFiles::Open(folder, "job-1", {"jsonl", "tensorboard"});
    files->Write(WriteMetrics{0, 1, {{"critic/score/mean", 0.5}}});
    files->Write(WriteMetrics{0, 1, {{"critic/score/mean", 0.5}}});
    files->Write(WriteMetrics{0, 2, {{"critic/score/mean", 0.75}}});
  }
  std::string path = folder + "/metrics.jsonl";
  CHECK(Lines(path) == 2);
  REQUIRE(WriteFileAtomic(path, *ReadFile(path, 1 << 20) + "{\"step\": 3, \"att").ok());
  {
    auto files = *RunFiles::Open(folder, "job-1", {"jsonl"});
    files->Write(WriteMetrics{0, 2, {}});
    files->Write(WriteMetrics{1, 2, {}});
    files->Write(WriteMetrics{1, 3, {{"actor/entropy", std::nan("")}}});
    auto newest = nlohmann::json::parse(files->newest_metrics());
    CHECK(newest["attempt"] == 1);
    CHECK(newest["step"] == 3);
    CHECK_FALSE(newest.contains("actor/entropy"));  // NaN is no JSON
  }
  CHECK(Lines(path) == 4);
  std::string content = *ReadFile(path, 1 << 20);
  CHECK(content.find("\"att{") == std::string::npos);
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("RunFiles: a file that was removed or moved is noticed", "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("run-files-test");
  auto files = *RunFiles::Open(folder, "job-1", {"jsonl"});
  files->Write(WriteMetrics{0, 1, {}});
  CHECK(files->CheckInPlace().ok());
  REQUIRE(RemoveTree(folder + "/metrics.jsonl").ok());
  CHECK(files->CheckInPlace().message().find("metrics.jsonl") != absl::string_view::npos);
  REQUIRE(WriteFileAtomic(folder + "/metrics.jsonl", "").ok());  // Another file of that name.
  CHECK_FALSE(files->CheckInPlace().ok());
  files = *RunFiles::Open(folder, "job-1", {"jsonl"});
  CHECK(files->CheckInPlace().ok());
  REQUIRE(RenameDurably(folder, folder + "-moved").ok());
  CHECK_FALSE(files->CheckInPlace().ok());
  RemoveTree(folder + "-moved").IgnoreError();
}

TEST_CASE("RunFiles: events go into the file of that name, also after the head put a long one aside", "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("run-files-test");
  std::string path = folder + "/events.jsonl";
  auto files = *RunFiles::Open(folder, "job-1", {});
  files->Write(Note{"checkpoint", "step 1 is saved", /*routine=*/true});
  auto event = nlohmann::json::parse(*ReadFile(path, 1 << 20));
  CHECK(event["time"].is_string());
  CHECK(event["event"] == "checkpoint");
  CHECK(event["job"] == "job-1");
  CHECK(event["reason"] == "step 1 is saved");
  CHECK(event["level"] == "info");
  REQUIRE(RenameDurably(path, path + ".1").ok());
  files->Write(Note{"checkpoint_damaged", "step 1 is given up"});
  event = nlohmann::json::parse(*ReadFile(path, 1 << 20));
  CHECK(event["event"] == "checkpoint_damaged");
  CHECK(event["level"] == "warning");
  RemoveTree(folder).IgnoreError();
}

}  // namespace troupe
