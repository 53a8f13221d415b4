// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/child_program.h"

#include <catch2/catch.hpp>
#include <ctime>

namespace troupe {
namespace {

// What a shell script prints when `queue` is all it gets, and how it ended.
struct Run {
  std::deque<std::string> lines;
  std::string ending;
};
Run RunScript(const std::string& script, const std::vector<std::string>& queue, const std::string& working_dir = "") {
  std::unique_ptr<ChildProgram> program =
      ChildProgram::Start({.argv = {"/bin/sh", "-c", script}, .working_dir = working_dir}).value();
  for (const std::string& line : queue) program->QueueLine(line);
  Run run;
  for (int i = 0; i < 100'000; ++i) {
    program->PumpInput();
    if (!program->PumpOutput(run.lines)) break;
    ChildProgram::WaitAny({program.get()}, absl::Seconds(1));
  }
  run.ending = program->Ending();
  return run;
}

}  // namespace

TEST_CASE("ChildProgram: lines go in and out, in a folder, and the end is told with the last word", "[child_program]") {
  Run run = RunScript("read a; echo \"$a in $(pwd)\"; echo first >&2; echo last >&2; echo >&2; exit 3", {"x"}, "/");
  CHECK(run.lines == std::deque<std::string>{"x in /"});
  CHECK(run.ending == "exit status 3: last");
  CHECK(RunScript("kill -9 $$", {}).ending == "signal 9");
  CHECK_FALSE(ChildProgram::Start({.argv = {"/bin/sh"}, .working_dir = "/nonexistent"}).ok());
}

TEST_CASE("ChildProgram: more on stderr than a pipe holds does not stop a program", "[child_program]") {
  Run run = RunScript("head -c 300000 /dev/zero | tr '\\0' '\\n' >&2; echo done; exit 4", {});
  CHECK(run.lines == std::deque<std::string>{"done"});
  CHECK(run.ending == "exit status 4");
}

TEST_CASE("ChildProgram: a long queue costs no more than its bytes", "[child_program]") {
  std::clock_t begin = std::clock();  // of this process alone
  Run run = RunScript("head -c 67108928 | wc -c", std::vector<std::string>(64, std::string(1 << 20, 'x')));
  CHECK(run.lines == std::deque<std::string>{"67108928"});
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 2);
}

}  // namespace troupe
