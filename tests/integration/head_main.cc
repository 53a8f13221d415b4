// SPDX-License-Identifier: Apache-2.0
// A head in a process of its own, so that tests can kill it: head_main ADDRESS DATA_DIR TOKEN. SIGTERM ends it.
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>

#include "runtime/base/status.h"
#include "scheduler/server/head_server.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // Nothing is left of a test that dies.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto head = troupe::HeadServer::Start({.data_dir = argv[2],
                                         .addresses = {argv[1]},
                                         .security = {.token = argv[3]},
                                         .heartbeat_interval = absl::Milliseconds(200)});
  if (!head.ok()) {
    std::fprintf(stderr, "head: %s\n", troupe::StatusText(head.status()).c_str());
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  (*head)->Shutdown();
  return 0;
}
