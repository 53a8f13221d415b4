// SPDX-License-Identifier: Apache-2.0
// The limits of the machine that need no other process that serves.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/errno_status.h"
#include "tools/bench/machine.h"
#include "tools/bench/ping_pong.h"

namespace troupe::bench {
namespace {

constexpr int kCommitBytes = 4096;

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

// Its stdout goes nowhere.
absl::StatusOr<pid_t> StartProgram(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int error = ::posix_spawn(&child, words[0], &files, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return ErrnoStatus(error, argv[0]);
  return child;
}

}  // namespace

Limit Machine::ThreadRoundTrip() {
  return {"futex round trip of threads", [](absl::Duration budget) {
            PingPong words;
            std::atomic<bool> ends{false};
            std::thread other([&] {
              for (uint32_t n = 0; !ends; ++n) {
                PingPong::Await(words.ping, n, false);
                PingPong::Step(words.pong, true);
              }
            });
            auto each = MicrosecondsEach(budget, [&] {
              words.Once(false, true);
              return absl::OkStatus();
            });
            ends = true;
            PingPong::Step(words.ping, true);
            other.join();
            return each;
          }};
}

Limit Machine::Memcpy(int64_t block_bytes, int blocks) {
  struct Buffers {
    std::vector<char> from, to;
  };
  static auto* buffers = new Buffers;  // One pair for all of them.
  std::string size =
      block_bytes >= 1 << 20 ? std::to_string(block_bytes >> 20) + " MiB" : std::to_string(block_bytes) + " B";
  return {"memcpy of " + size, [=](absl::Duration budget) {
            auto bytes = static_cast<size_t>(block_bytes) * static_cast<size_t>(blocks);
            if (buffers->from.size() < bytes) {
              buffers->from.assign(bytes, 'a');
              buffers->to.assign(bytes, 'b');
            }
            int64_t next = 0;
            auto rate = RateOf(budget, [&]() -> absl::StatusOr<int64_t> {
              auto at = static_cast<size_t>(next++ % blocks * block_bytes);
              std::memcpy(buffers->to.data() + at, buffers->from.data() + at, static_cast<size_t>(block_bytes));
              asm volatile("" : : "r"(buffers->to.data()) : "memory");
              return block_bytes;
            });
            if (rate.ok()) *rate /= 1e9;
            return rate;
          }};
}

Limit Machine::ProcessEnd() {
  return {"kill to pidfd wake-up", [](absl::Duration) -> absl::StatusOr<double> {
            TROUPE_ASSIGN_OR_RETURN(pid_t child, StartProgram({"/bin/sleep", "60"}));
            UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
            pollfd waited{fd.get(), POLLIN, 0};
            PauseFor(absl::Milliseconds(5));  // It sleeps by then.
            Monotonic begin = MonotonicNow();
            ::kill(child, SIGKILL);
            ::poll(&waited, 1, -1);
            absl::Duration took = MonotonicNow() - begin;
            ::waitpid(child, nullptr, 0);
            return Milliseconds(took);
          }};
}

Limit Machine::ProgramRun(std::vector<std::string> argv, const std::string& name) {
  return {name, [argv = std::move(argv)](absl::Duration) -> absl::StatusOr<double> {
            int status = 0;
            Monotonic begin = MonotonicNow();
            TROUPE_ASSIGN_OR_RETURN(pid_t child, StartProgram(argv));
            ::waitpid(child, &status, 0);
            absl::Duration took = MonotonicNow() - begin;
            if (status != 0) return absl::UnknownError(argv[0] + " ended with status " + std::to_string(status));
            return Milliseconds(took);
          }};
}

Limit Machine::Commit(const std::string& folder) {
  return {"4 KiB made durable", [path = folder + "/commit"](absl::Duration budget) -> absl::StatusOr<double> {
            UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
            if (file.get() < 0) return ErrnoStatus(errno, path);
            auto each = MicrosecondsEach(budget, [&] {
              char block[kCommitBytes] = {};
              bool good = ::write(file.get(), block, sizeof(block)) == sizeof(block) && ::fdatasync(file.get()) == 0;
              return good ? absl::OkStatus() : ErrnoStatus(errno, path);
            });
            ::unlink(path.c_str());
            if (each.ok()) *each /= 1000;
            return each;
          }};
}

std::string Machine::Describe() {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "a processor";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    model = line.substr(line.find(':') + 2);
    break;
  }
  utsname system{};
  ::uname(&system);
  return model + ", " + std::to_string(std::thread::hardware_concurrency()) + " processors, " + system.sysname + " " +
         system.release;
}

}  // namespace troupe::bench
