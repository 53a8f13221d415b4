// SPDX-License-Identifier: Apache-2.0
// What an idle head, node and keeper cost, and the program's size.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/file.h"
#include "tools/bench/bench.h"
#include "tools/bench/processor_use.h"

namespace troupe::bench {
namespace {

constexpr absl::Duration kLookMin = absl::Seconds(1);

// An idle cluster in processes of its own. They run copies of the programs, so that no page of them is shared with this
// process.
class IdleCluster {
 public:
  absl::Status Start(const std::string& folder) {
    std::string program = Bench::Program();
    std::string copy = folder + "/troupe";
    std::error_code error;
    std::filesystem::path from = std::filesystem::path(program).parent_path();
    std::filesystem::copy_file(program, copy, std::filesystem::copy_options::overwrite_existing, error);
    if (!error) {
      std::filesystem::copy_file(from / "troupe_keeper", folder + "/troupe_keeper",
                                 std::filesystem::copy_options::overwrite_existing, error);
    }
    if (error) return absl::UnavailableError("cannot copy troupe and troupe_keeper: " + error.message());
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
    UniqueFd in_end(in[0]), out_end(out[1]);
    input_ = UniqueFd(in[1]);
    UniqueFd output(out[0]);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    char* words[] = {copy.data(), const_cast<char*>("bench"), const_cast<char*>("idle"), nullptr};
    int failed = ::posix_spawn(&process_, words[0], &files, nullptr, words, environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) return ErrnoStatus(failed, copy);
    out_end = UniqueFd();
    char byte = 0;
    if (::read(output.get(), &byte, 1) != 1) return absl::UnavailableError("the idle cluster did not start");
    return absl::OkStatus();
  }
  ~IdleCluster() {
    input_ = UniqueFd();  // It ends by that.
    if (process_ != 0) ::waitpid(process_, nullptr, 0);
  }

  std::vector<pid_t> Processes() const { return ProcessTree(process_); }

  absl::StatusOr<double> MiB() const {
    int64_t bytes = 0;
    for (pid_t process : Processes()) {
      TROUPE_ASSIGN_OR_RETURN(int64_t more, MemoryOf(process));
      bytes += more;
    }
    return static_cast<double>(bytes) / (1 << 20);
  }

  // Percent of one processor.
  double Use(absl::Duration look) const {
    Monotonic begin = MonotonicNow();
    absl::Duration before = ProcessorTime();
    PauseFor(look);
    return 100 * absl::FDivDuration(ProcessorTime() - before, MonotonicNow() - begin);
  }

 private:
  absl::Duration ProcessorTime() const {
    absl::Duration sum;
    for (pid_t process : Processes()) sum += ProcessorTimeOf(process);
    return sum;
  }

  pid_t process_ = 0;
  UniqueFd input_;
};

absl::StatusOr<double> SizeOf(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(FileInfo file, StatFile(path));
  return static_cast<double>(file.size_bytes) / 1e6;
}

}  // namespace

void MeasureFootprint(Bench& bench, Meter& meter) {
  meter.Run({{.name = "program_size",
              .unit = "MB",
              .more_is_better = false,
              .sample = [](absl::Duration) { return SizeOf(Bench::Program()); },
              .target = 30,
              .repeats_max = 1}},
            [] { return absl::OkStatus(); });
  IdleCluster idle;
  absl::Duration look = bench.options().quick ? absl::Milliseconds(100) : kLookMin;
  meter.Run({{.name = "idle_memory",
              .unit = "MiB",
              .more_is_better = false,
              .sample = [&](absl::Duration) { return idle.MiB(); },
              .target = 40,
              .repeats_max = 3},
             {.name = "idle_processes",
              .unit = "",
              .more_is_better = false,
              .sample = [&](absl::Duration) { return static_cast<double>(idle.Processes().size()); },
              .target = 2,
              .repeats_max = 1},
             {.name = "idle_processor",
              .unit = "%",
              .more_is_better = false,
              .sample = [&](absl::Duration budget) { return idle.Use(std::max(budget, look)); },
              .target = 0.3,
              .repeats_max = 5}},
            [&] { return idle.Start(bench.folder()); });
}

}  // namespace troupe::bench
