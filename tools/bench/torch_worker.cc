// SPDX-License-Identifier: Apache-2.0
// A worker program with the actors of benchmarks that loads LibTorch as it starts, as one of the roles' does.
#include "runtime/worker/worker_main.h"

int main(int argc, char** argv) { return troupe::RunWorker(argc, argv); }
