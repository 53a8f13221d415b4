// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "runtime/env/errno_status.h"

namespace troupe {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT};
constexpr int kThresholdBytes = 128 << 20;

// An address in whatever this code was linked into.
const char g_here = 0;

// All that a handler may touch.
std::atomic<int> g_write_fd{-1};
struct sigaction g_former[std::size(kSignals)];

void OnSignal(int signal) {
  int saved = errno;
  auto byte = static_cast<unsigned char>(signal);
  ssize_t ignored = ::write(g_write_fd.load(), &byte, 1);
  (void)ignored;
  errno = saved;
}

}  // namespace

std::string OwnProgramPath() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string LibraryFolder() {
  Dl_info info = {};
  link_map* loaded = nullptr;
  bool found = ::dladdr1(&g_here, &info, reinterpret_cast<void**>(&loaded), RTLD_DL_LINKMAP) != 0;
  if (!found || loaded == nullptr || *loaded->l_name == '\0') return "";  // The program has no name in this list.
  return std::filesystem::absolute(loaded->l_name).parent_path().string();
}

absl::StatusOr<std::unique_ptr<TerminationSignals>> TerminationSignals::Install(std::function<void(int)> callback) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe for signals");
  std::unique_ptr<TerminationSignals> signals(new TerminationSignals);
  signals->read_end_.Reset(ends[0]);
  signals->write_end_.Reset(ends[1]);
  int none = -1;
  if (!g_write_fd.compare_exchange_strong(none, ends[1])) {
    return absl::AlreadyExistsError("signals are taken care of already");
  }
  signals->thread_ = std::thread([fd = ends[0], callback = std::move(callback)] {
    unsigned char signal;
    ssize_t got;
    while ((got = ::read(fd, &signal, 1)) == 1 || (got < 0 && errno == EINTR)) {
      if (got == 1 && signal == 0) return;
      if (got == 1) callback(signal);
    }
  });
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &action, &g_former[i]);
  return signals;
}

TerminationSignals::~TerminationSignals() {
  if (!thread_.joinable()) return;  // Install failed.
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &g_former[i], nullptr);
  unsigned char end = 0;
  ssize_t ignored = ::write(write_end_.get(), &end, 1);
  (void)ignored;
  thread_.join();
  g_write_fd.store(-1);
}

absl::StatusOr<UniqueFd> OpenProcess(pid_t pid) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.valid()) return process;
  if (errno == ESRCH) return absl::NotFoundError("there is no process " + std::to_string(pid));
  return ErrnoStatus(errno, "pidfd_open of process " + std::to_string(pid));
}

void TuneMalloc() {
  ::mallopt(M_MMAP_THRESHOLD, kThresholdBytes);
  ::mallopt(M_TRIM_THRESHOLD, kThresholdBytes);
}

}  // namespace troupe
