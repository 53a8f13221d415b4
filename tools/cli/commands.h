// SPDX-License-Identifier: Apache-2.0
// The commands. Each takes what was typed, prints, and returns the exit status.
#pragma once

#include "tools/cli/options.h"
#include "tools/cli/signals.h"

namespace troupe::cli {

int RunCommand(const Options& options, SignalWaiter& signals);      // run.cc
int ResumeCommand(const Options& options, SignalWaiter& signals);   // run.cc
int HeadCommand(const Options& options, SignalWaiter& signals);     // cluster.cc
int NodeCommand(const Options& options, SignalWaiter& signals);     // cluster.cc
int SubmitCommand(const Options& options, SignalWaiter& signals);   // submit.cc
int ExplainCommand(const Options& options);                         // explain.cc
int JobsCommand(const Options& options, SignalWaiter& signals);     // lists.cc
int NodesCommand(const Options& options, SignalWaiter& signals);    // lists.cc
int ActorsCommand(const Options& options, SignalWaiter& signals);   // lists.cc
int DevicesCommand(const Options& options, SignalWaiter& signals);  // devices.cc
int QueuesCommand(const Options& options, SignalWaiter& signals);   // queues.cc
int QueueCommand(const Options& options);                           // queues.cc
int GroupsCommand(const Options& options, SignalWaiter& signals);   // operations.cc
int ScaleCommand(const Options& options, SignalWaiter& signals);    // operations.cc
int DrainCommand(const Options& options, SignalWaiter& signals);    // operations.cc
int UndrainCommand(const Options& options);                         // operations.cc
int LogsCommand(const Options& options, SignalWaiter& signals);     // logs.cc
int CancelCommand(const Options& options);                          // submit.cc
int GenerateCommand(const Options& options);                        // worker_program.cc
int ExportCommand(const Options& options);                          // worker_program.cc
int DoctorCommand(const Options& options);                          // doctor.cc
// While this process has one thread.
int BenchCommand(const Options& options);  // bench.cc

}  // namespace troupe::cli
