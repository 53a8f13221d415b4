// SPDX-License-Identifier: Apache-2.0
// Options: what was typed. The only file that knows the command line's grammar is options.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/bench/bench_options.h"
#include "troupe/v1/head.pb.h"

namespace troupe::cli {

// Exit statuses of every command.
inline constexpr int kDone = 0;
inline constexpr int kJobFailed = 1;
inline constexpr int kWrongUse = 2;
inline constexpr int kUnreachable = 3;
inline constexpr int kInterrupted = 130;

// How the head is reached.
struct Connection {
  std::string head;        // HOST:PORT; "": $TROUPE_HEAD, else 127.0.0.1:7400
  std::string token_file;  // "": ~/.config/troupe/token
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  bool insecure = false;
};

struct Options {
  std::string command;
  Connection connection;
  std::string target;                  // The job file, job id, run folder or benchmark of the command.
  std::vector<std::string> overrides;  // path.to.field=value
  std::string output = "table";        // table | wide | json | yaml
  bool quiet = false;
  bool json_summary = false;
  bool follow = false;
  bool dry_run = false;
  bool no_wait = false;
  bool watch = false;
  std::string job_filter;           // Lists: only this job.
  std::string role;                 // logs: ROLE or ROLE/N
  v1::Queue queue;                  // queue: its limits
  std::vector<std::string> scales;  // scale: ROLE=N
  std::string reason;               // drain
  absl::Duration deadline = absl::Minutes(10);
  absl::Duration since = absl::InfiniteDuration();
  absl::Duration grace = absl::ZeroDuration();  // 0: the job's own
  // head, node
  std::string listen;
  std::string data_dir;
  std::string node_id;
  std::string host;
  std::string devices = "auto";
  std::vector<std::string> labels;
  std::vector<std::string> resources;  // name=number
  std::string cpu_isolation = "none";
  uint64_t worker_object_bytes = 0;  // 0: no quota
  double cpus = 0;                   // 0: those of the machine
  std::vector<std::string> typed;    // The whole line, which generate and export pass on to the worker binary.
  bench::BenchOptions bench;
};

// Parses. On --help, --version or an error prints it and sets `exit_code` (0 or 2) and returns false.
bool ParseOptions(int argc, char** argv, Options& options, int& exit_code);

}  // namespace troupe::cli
