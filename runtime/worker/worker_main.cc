// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker/worker_main.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "runtime/env/process.h"
#include "runtime/worker/worker_process.h"

namespace troupe {
namespace {

// SIGTERM from somebody other than the agent; the keeper kills when the job's own grace is over.
constexpr absl::Duration kSignalGrace = absl::Seconds(30);

absl::StatusOr<WorkerOptions> OptionsOfEnvironment() {
  std::string life = EnvironmentVariable("TROUPE_WORKER");
  WorkerOptions options;
  options.agent_socket = EnvironmentVariable("TROUPE_AGENT_SOCKET");
  std::string token_fd = EnvironmentVariable("TROUPE_TOKEN_FD");
  if (life.empty() || options.agent_socket.empty() || token_fd.empty()) {
    return absl::FailedPreconditionError(
        "this program is started by a node agent (TROUPE_WORKER, TROUPE_AGENT_SOCKET and TROUPE_TOKEN_FD are not set); "
        "to run a job: troupe run JOB.yaml");
  }
  TROUPE_ASSIGN_OR_RETURN(options.self, ActorLife::Parse(life));
  TROUPE_ASSIGN_OR_RETURN(options.token, Token::FromDescriptor(std::atoi(token_fd.c_str())));
  ::unsetenv("TROUPE_TOKEN_FD");  // Programs that the actor starts get no hint of it.
  return options;
}

}  // namespace

int RunWorker(int, char** argv) {
  TuneMalloc();
  absl::StatusOr<WorkerOptions> options = OptionsOfEnvironment();
  if (!options.ok()) {
    std::cerr << (argv != nullptr && argv[0] != nullptr ? argv[0] : "worker") << ": " << MessageOf(options.status())
              << std::endl;
    return WorkerProcess::kStartedWrongly;
  }
  WorkerProcess process(*std::move(options));
  auto signals = TerminationSignals::Install(
      [&process](int signal) { process.Stop("signal " + std::to_string(signal), kSignalGrace); });
  if (!signals.ok()) {
    std::cerr << "worker: " << StatusText(signals.status()) << std::endl;
    return WorkerProcess::kStartedWrongly;
  }
  int code = process.Run();
  std::fflush(nullptr);
  std::cout.flush();
  // Nothing that is left to destroy is worth a hang at the exit: threads of libraries, or of an actor that did not
  // stop.
  ::_exit(code);
}

}  // namespace troupe
