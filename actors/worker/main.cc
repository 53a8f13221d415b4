// SPDX-License-Identifier: Apache-2.0
// troupe_worker: the program that hosts the built-in role actors. Started by a node agent it becomes the worker that it
// was told to be; started by the command line it runs what needs LibTorch: --describe, generate, export, make-model.
#include <cstdio>
#include <cstring>

#include "actors/worker/describe.h"
#include "actors/worker/model_commands.h"
#include "runtime/worker/worker_main.h"

int main(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], "--describe") == 0) {
    std::printf("%s\n", troupe::DescribeWorker().c_str());
    return 0;
  }
  if (argc >= 2 && argv[1][0] != '-') return troupe::RunModelCommand(argc, argv);
  return troupe::RunWorker(argc, argv);
}
