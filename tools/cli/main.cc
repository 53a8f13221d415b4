// SPDX-License-Identifier: Apache-2.0
// troupe: the command line. options.cc knows the grammar, one file knows each command.
#include <csignal>
#include <exception>
#include <iostream>
#include <map>

#include "runtime/env/file.h"
#include "runtime/worker/worker_main.h"
#include "tools/cli/commands.h"

namespace {

int Main(int argc, char** argv) {
  using namespace troupe::cli;  // NOLINT: the program's own namespace
  Options options;
  int exit_code = kDone;
  if (!ParseOptions(argc, argv, options, exit_code)) return exit_code;
  using WithSignals = int (*)(const Options&, SignalWaiter&);
  static const std::map<std::string, WithSignals> kLong = {
      {"run", RunCommand},       {"resume", ResumeCommand}, {"head", HeadCommand},     {"node", NodeCommand},
      {"jobs", JobsCommand},     {"nodes", NodesCommand},   {"actors", ActorsCommand}, {"queues", QueuesCommand},
      {"groups", GroupsCommand}, {"scale", ScaleCommand},   {"drain", DrainCommand},   {"devices", DevicesCommand},
      {"logs", LogsCommand},     {"submit", SubmitCommand}};
  using Plain = int (*)(const Options&);
  static const std::map<std::string, Plain> kShort = {
      {"explain", ExplainCommand},   {"queue", QueueCommand},   {"undrain", UndrainCommand}, {"cancel", CancelCommand},
      {"generate", GenerateCommand}, {"export", ExportCommand}, {"doctor", DoctorCommand},   {"bench", BenchCommand}};
  if (auto found = kShort.find(options.command); found != kShort.end()) return found->second(options);
  SignalWaiter signals;  // before any thread
  return kLong.at(options.command)(options, signals);
}

}  // namespace

int main(int argc, char** argv) {
  // A worker of `troupe bench`, started by its node agent.
  if (argc == 1 && !troupe::EnvironmentVariable("TROUPE_WORKER").empty()) return troupe::RunWorker(argc, argv);
  std::signal(SIGXFSZ, SIG_IGN);  // A file over its limit is an error of the write.
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {  // A thread or memory that the system refuses.
    std::cerr << "troupe: " << error.what() << "; 'ulimit -a' shows the limits of this shell\n";
    return troupe::cli::kJobFailed;
  }
}
