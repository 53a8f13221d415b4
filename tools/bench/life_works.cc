// SPDX-License-Identifier: Apache-2.0
// Actors and processes come, die and come again.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/file.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_hello.h"

namespace troupe::bench {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kLook = absl::Microseconds(200);
constexpr size_t kTogether = 8;

absl::StatusOr<double> Since(Monotonic begin) { return absl::ToDoubleMilliseconds(MonotonicNow() - begin); }

// A runtime, its head, node and keeper, and an actor in a process of its own that has answered.
absl::StatusOr<double> StartOfRuntime() {
  Monotonic begin = MonotonicNow();
  absl::StatusOr<Runtime> runtime = Runtime::Local({.name = "start"});
  if (!runtime.ok()) return runtime.status();
  TROUPE_ASSIGN_OR_RETURN(Ref<BenchPeer> peer, runtime->Spawn<BenchPeer>({.cpus = 0.1}));
  TROUPE_RETURN_IF_ERROR(peer.Call<&BenchPeer::Add>(int64_t{1}).Get().status());
  return Since(begin);
}

absl::StatusOr<double> NewProcess(Bench& bench, const std::string& program) {
  Monotonic begin = MonotonicNow();
  TROUPE_ASSIGN_OR_RETURN(Ref<BenchPeer> peer, bench.Spawn({}, program));
  TROUPE_RETURN_IF_ERROR(peer.Call<&BenchPeer::Add>(int64_t{1}).Get().status());
  absl::StatusOr<double> took = Since(begin);
  TROUPE_RETURN_IF_ERROR(bench.runtime().Stop(peer, "it was timed"));
  return took;
}

absl::StatusOr<double> NewProcesses(Bench& bench) {
  Monotonic begin = MonotonicNow();
  absl::StatusOr<Group<BenchPeer>> group = bench.runtime().SpawnGroup<BenchPeer>(kTogether, {.cpus = 0.01});
  if (!group.ok()) return group.status();
  TROUPE_RETURN_IF_ERROR(group->Broadcast<&BenchPeer::Add>(int64_t{1}).All().status());
  absl::StatusOr<double> took = Since(begin);
  for (const Ref<BenchPeer>& member : *group) {
    TROUPE_RETURN_IF_ERROR(bench.runtime().Stop(member, "it was timed"));
  }
  return took;
}

// From the kill to the error of a call that waits.
absl::StatusOr<double> KillToError(Bench& bench) {
  TROUPE_ASSIGN_OR_RETURN(Ref<BenchPeer> peer, bench.Spawn());
  TROUPE_ASSIGN_OR_RETURN(int64_t pid, peer.Call<&BenchPeer::Pid>().Get());
  Future<void> hangs = peer.Call<&BenchPeer::Hang>();
  PauseFor(absl::Milliseconds(20));  // It hangs by then.
  Monotonic begin = MonotonicNow();
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  absl::Status told = hangs.Get(begin + kPatience);
  absl::StatusOr<double> took = Since(begin);
  if (told.ok() || told.code() == absl::StatusCode::kDeadlineExceeded) {
    return absl::InternalError("the call to a process that was killed ended with " + StatusText(told));
  }
  TROUPE_RETURN_IF_ERROR(bench.runtime().Stop(peer, "it was killed"));
  return took;
}

// From the kill to an answer of the next life.
absl::StatusOr<double> KillToAnswer(Bench& bench, const std::string& program) {
  TROUPE_ASSIGN_OR_RETURN(Ref<BenchPeer> peer, bench.Spawn({.max = 3}, program));
  TROUPE_ASSIGN_OR_RETURN(int64_t pid, peer.Call<&BenchPeer::Pid>().Get());
  Monotonic begin = MonotonicNow();
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  while (MonotonicNow() < begin + kPatience) {
    absl::StatusOr<Ref<BenchPeer>> latest = bench.runtime().Latest(peer);
    if (latest.ok() && !(*latest == peer) && latest->Call<&BenchPeer::Add>(int64_t{1}).Get().ok()) {
      absl::StatusOr<double> took = Since(begin);
      TROUPE_RETURN_IF_ERROR(bench.runtime().Stop(*latest, "it was timed"));
      return took;
    }
    PauseFor(kLook);
  }
  return absl::DeadlineExceededError("the next life of an actor that was killed does not answer");
}

struct HelloTimes {
  double first_line = 0, done = 0;  // Milliseconds.
};

// `troupe run` of a job whose only role says hello and ends.
absl::StatusOr<HelloTimes> RunHello(const Bench& bench, int round) {
  std::string job = bench.folder() + "/hello.yaml", output = bench.folder() + "/hello-" + std::to_string(round);
  TROUPE_RETURN_IF_ERROR(WriteFileAtomic(
      job, "name: hello\nroles:\n  hello: {class: BenchHello, args: [], worker_binary: " + Bench::Program() +
               ", resources: {cpu: 0.1}}\n"));
  std::string program = Bench::Program(), override_text = "trainer.output_dir=" + output;
  std::vector<char*> words = {program.data(), const_cast<char*>("run"), job.data(), override_text.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, (output + ".log").c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  HelloTimes times;
  Monotonic begin = MonotonicNow();
  int error = ::posix_spawn(&child, words[0], &files, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return ErrnoStatus(error, program);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    std::string log = ReadFile(output + "/logs/hello-0.log", 1 << 20).value_or("");
    if (times.first_line == 0 && log.find(kHelloLine) != std::string::npos) times.first_line = Since(begin).value();
    if (MonotonicNow() > begin + kPatience) ::kill(child, SIGKILL);
    PauseFor(kLook);
  }
  times.done = Since(begin).value();
  if (status == 0 && times.first_line > 0) return times;
  std::string said = ReadFile(output + ".log", 1 << 20).value_or("");
  return absl::InternalError("troupe run of a job that says hello ended with status " + std::to_string(status) + ": " +
                             said);
}

std::vector<Work> HelloWorks(const Bench& bench, int& rounds) {
  Limit limit = Machine::ProgramRun({Bench::Program(), "--version"}, "troupe --version");
  auto sample = [&bench, &rounds](double HelloTimes::*part) {
    return [&bench, &rounds, part](absl::Duration) -> absl::StatusOr<double> {
      TROUPE_ASSIGN_OR_RETURN(HelloTimes times, RunHello(bench, ++rounds));
      return times.*part;
    };
  };
  return {{.name = "run_to_first_line",
           .unit = "ms",
           .more_is_better = false,
           .sample = sample(&HelloTimes::first_line),
           .limit = limit,
           .target = 100},
          {.name = "run_to_done",
           .unit = "ms",
           .more_is_better = false,
           .sample = sample(&HelloTimes::done),
           .limit = limit,
           .target = 200}};
}

// The same with a program that has LibTorch.
std::vector<Work> TorchWorks(Bench& bench) {
  const std::string& program = bench.options().torch_worker;
  return {{.name = "process_spawn_torch",
           .unit = "ms",
           .more_is_better = false,
           .sample = [&](absl::Duration) { return NewProcess(bench, program); },
           .target = 60,
           .repeats_max = 5},
          {.name = "kill_to_answer_torch",
           .unit = "ms",
           .more_is_better = false,
           .sample = [&](absl::Duration) { return KillToAnswer(bench, program); },
           .target = 150,
           .repeats_max = 5}};
}

}  // namespace

void MeasureLives(Bench& bench, Meter& meter) {
  Limit program = Machine::ProgramRun({Bench::Program(), "--version"}, "troupe --version");
  std::vector<Work> works = {
      {.name = "runtime_start",
       .unit = "ms",
       .more_is_better = false,
       .sample = [](absl::Duration) { return StartOfRuntime(); },
       .limit = program,
       .target = 50},
      {.name = "process_spawn",
       .unit = "ms",
       .more_is_better = false,
       .sample = [&](absl::Duration) { return NewProcess(bench, ""); },
       .limit = program,
       .target = 10},
      {.name = "process_spawn_8",
       .unit = "ms",
       .more_is_better = false,
       .sample = [&](absl::Duration) { return NewProcesses(bench); },
       .limit = program},
      {.name = "kill_to_error",
       .unit = "ms",
       .more_is_better = false,
       .sample = [&](absl::Duration) { return KillToError(bench); },
       .limit = Machine::ProcessEnd(),
       .target = 5},
      {.name = "kill_to_answer",
       .unit = "ms",
       .more_is_better = false,
       .sample = [&](absl::Duration) { return KillToAnswer(bench, ""); },
       .limit = program,
       .target = 50},
  };
  if (!bench.options().torch_worker.empty()) {
    for (Work& work : TorchWorks(bench)) works.push_back(std::move(work));
  }
  int rounds = 0;
  for (Work& work : HelloWorks(bench, rounds)) works.push_back(std::move(work));
  meter.Run(works, [&] { return bench.StartRuntime(); });
}

}  // namespace troupe::bench
