// SPDX-License-Identifier: Apache-2.0
// A node agent in a process of its own, so that tests can kill it:
//   agent_main HEAD RUNTIME_DIR TOKEN KEEPER WORKER AGENT_LOSS_GRACE_MS [NODE_ID HOST]
// SIGTERM shuts it down. Exit status 0, or 1 with the reason on stderr.
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/agent/node_agent.h"
#include "runtime/base/status.h"

int main(int argc, char** argv) {
  if (argc != 7 && argc != 9) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // Nothing is left of a test that dies.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  troupe::AgentOptions options{
      .head_target = argv[1],
      .security = {.token = argv[3]},
      .runtime_dir = argv[2],
      .node_id = argc == 9 ? argv[7] : "test-node",
      .resources = {.cpus = 4, .devices = "sim:2"},
      .keeper_program = argv[4],
      .worker_binary = argv[5],
      .host = argc == 9 ? argv[8] : "",
      .agent_loss_grace = absl::Milliseconds(std::atoi(argv[6])),
      .remove_runtime_dir = true,
      .log = [](const std::string& text) { std::fprintf(stderr, "agent: %s\n", text.c_str()); }};
  auto agent = troupe::NodeAgent::Start(options);
  if (!agent.ok()) {
    std::fprintf(stderr, "agent: %s\n", troupe::StatusText(agent.status()).c_str());
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  absl::Status status = (*agent)->Shutdown(absl::Seconds(2));
  if (!status.ok()) std::fprintf(stderr, "agent: %s\n", troupe::StatusText(status).c_str());
  return status.ok() ? 0 : 1;
}
