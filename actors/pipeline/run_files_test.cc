// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/run_files.h"

#include <catch2/catch.hpp>
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
    auto files = *RunFiles::Open(folder, {"jsonl", "tensorboard"});
    files->Write(WriteMetrics{0, 1, {{"critic/score/mean", 0.5}}});
    files->Write(WriteMetrics{0, 1, {{"critic/score/mean", 0.5}}});
    files->Write(WriteMetrics{0, 2, {{"critic/score/mean", 0.75}}});
  }
  std::string path = folder + "/metrics.jsonl";
  CHECK(Lines(path) == 2);
  REQUIRE(WriteFileAtomic(path, *ReadFile(path, 1 << 20) + "{\"step\": 3, \"att").ok());
  {
    auto files = *RunFiles::Open(folder, {"jsonl"});
    files->Write(WriteMetrics{0, 2, {}});
    files->Write(WriteMetrics{1, 2, {}});
    files->Write(WriteMetrics{1, 3, {}});
    auto newest = nlohmann::json::parse(files->newest_metrics());
    CHECK(newest["attempt"] == 1);
    CHECK(newest["step"] == 3);
  }
  CHECK(Lines(path) == 4);
  std::string content = *ReadFile(path, 1 << 20);
  CHECK(content.find("\"att{") == std::string::npos);
  RemoveTree(folder).IgnoreError();
}

}  // namespace troupe
