// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/job_logs.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/env/file.h"

namespace troupe::scheduler {
namespace {

struct Folder {
  Folder() : path(MakeTemporaryDirectory("logs-test").value()) { std::filesystem::create_directory(path + "/logs"); }
  ~Folder() { RemoveTree(path).IgnoreError(); }
  void Append(const std::string& name, const std::string& text) {
    std::ofstream(path + "/logs/" + name, std::ios::app | std::ios::binary) << text;
  }
  void Rotate(const std::string& name) {
    std::filesystem::rename(path + "/logs/" + name, path + "/logs/" + name + ".1");
  }
  std::string path;
};

std::vector<std::string> Texts(JobLogs& logs, size_t lines_max = 1000) {
  std::vector<std::string> texts;
  std::vector<v1::LogLine> lines = logs.Read(lines_max).value();
  for (const v1::LogLine& line : lines) {
    texts.push_back(line.actor().role() + "/" + std::to_string(line.actor().replica()) + " " + line.text());
  }
  return texts;
}

using Lines = std::vector<std::string>;

TEST_CASE("Job logs: a line is time, stream and text", "[logs]") {
  v1::LogLine line = ParseLogLine("2026-11-30T10:45:46.123456Z E two  spaces");
  CHECK(line.unix_us() == 1796035546123456);
  CHECK(line.is_stderr());
  CHECK(line.text() == "two  spaces");
  CHECK(ParseLogLine("2026-11-30T10:45:46.123456Z O").text().empty());
  CHECK(ParseLogLine("nonsense").text() == "nonsense");
}

TEST_CASE("Job logs: merged by time over processes and rotated files", "[logs]") {
  Folder folder;
  folder.Append("rollout-0.log.1", "2026-11-30T10:00:00.000001Z O a\n");
  folder.Append("rollout-0.log", "2026-11-30T10:00:00.000003Z O c\n2026-11-30T10:00:00.000005Z O e\n");
  folder.Append("actor-12.log", "2026-11-30T10:00:00.000002Z O b\nno time\n2026-11-30T10:00:00.000004Z E d\n");
  folder.Append("notes.txt", "x\n");
  JobLogs all(folder.path, {.job_id = "job"});
  CHECK(Texts(all, 2) == Lines{"rollout/0 a", "actor/12 b"});
  CHECK(Texts(all) == Lines{"actor/12 no time", "rollout/0 c", "actor/12 d", "rollout/0 e"});
  JobLogs some(folder.path, {.job_id = "job", .role = "rollout", .since_unix_us = 1796032800000003});
  CHECK(Texts(some) == Lines{"rollout/0 c", "rollout/0 e"});
  CHECK(some.Read(10).value().empty());
}

TEST_CASE("Job logs: follows new lines, new processes and rotation; half a line waits", "[logs]") {
  Folder folder;
  JobLogs logs(folder.path, {.job_id = "job"});
  CHECK(Texts(logs).empty());
  folder.Append("rollout-0.log", "2026-11-30T10:00:00.000001Z O a\n2026-11-30T10:00:00.000002Z O b");
  CHECK(Texts(logs) == Lines{"rollout/0 a"});
  folder.Append("rollout-0.log", "c\n2026-11-30T10:00:00.000003Z O d\n");
  folder.Rotate("rollout-0.log");
  folder.Append("rollout-0.log", "2026-11-30T10:00:00.000004Z O e\n");
  folder.Append("rollout-1.log", "2026-11-30T10:00:00.000005Z O f\n");
  CHECK(Texts(logs) == Lines{"rollout/0 bc", "rollout/0 d", "rollout/0 e", "rollout/1 f"});
}

TEST_CASE("Job logs: a job that has not started has none", "[logs]") {
  CHECK(JobLogs("/nonexistent", {}).Read(10).value().empty());
}

}  // namespace
}  // namespace troupe::scheduler
