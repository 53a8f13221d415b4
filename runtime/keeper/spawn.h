// SPDX-License-Identifier: Apache-2.0
// StartProcess: forks and executes one worker.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/env/unique_fd.h"

namespace troupe::keeper {

// The descriptor on which a worker finds its token, and the variable that says so.
inline constexpr int kTokenFd = 3;
inline constexpr char kTokenFdVariable[] = "TROUPE_TOKEN_FD";
// A token must fit the pipe that carries it without a reader.
inline constexpr size_t kTokenBytesMax = 4096;

struct ProcessSpec {
  std::vector<std::string> argv;         // argv[0] is the path of the program; it is not searched for.
  std::vector<std::string> environment;  // "KEY=value"; TROUPE_TOKEN_FD is added.
  std::string working_directory;         // "" the caller's.
  std::string token;
  std::string cgroup;                           // A folder of version 2, in which it is born; "" the caller's.
  std::vector<std::string> cgroup_procs_files;  // Of other groups that it enters.
  std::vector<int> cpus;                        // Processors that it may use; empty: the caller's.
};

struct StartedProcess {
  pid_t pid = 0;
  UniqueFd pidfd;
  UniqueFd stdout_pipe;  // Both non-blocking.
  UniqueFd stderr_pipe;
  // Readable when the program was executed (end of file) or could not be (see ReadExecStatus). Non-blocking.
  UniqueFd exec_status;
};

// The caller must have one thread only; it becomes the parent. The child has a session of its own, no descriptor but
// its standard ones and the token's, default signal handling, is killed when the parent dies, and is the subreaper of
// its own descendants: while it lives, none of them can be re-parented to the caller. RESOURCE_EXHAUSTED: no process or
// descriptor could be had. INVALID_ARGUMENT: no program, or the token is too long.
absl::StatusOr<StartedProcess> StartProcess(const ProcessSpec& spec);

// OK: the program runs. UNAVAILABLE: not known yet. NOT_FOUND, PERMISSION_DENIED, INTERNAL: what failed in the child.
absl::Status ReadExecStatus(int exec_status, const ProcessSpec& spec);

}  // namespace troupe::keeper
