// SPDX-License-Identifier: Apache-2.0
// JobLogs: the log lines of a job's processes, merged by time, as the keepers write them to `<output_dir>/logs/`: files
// `<role>-<replica>.log`, older ones with `.1`, `.2`, ...; lines `<RFC 3339 time with microseconds> <O|E> <text>`.
// Reads only the files that a page needs, a chunk at a time; rotation while reading is followed. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "troupe/v1/head.pb.h"

namespace troupe::scheduler {

// A line of a log file; unix_us is 0 and the text is the whole line when it has not the form.
v1::LogLine ParseLogLine(const std::string& line);

struct LogSelection {
  std::string job_id;
  std::string role;  // "" every role.
  int replica = -1;  // -1 every one.
  int64_t since_unix_us = 0;
};

class JobLogs {
 public:
  JobLogs(std::string output_dir, LogSelection selection);
  ~JobLogs();

  // At most `lines_max` lines that were there now and not read before, in the order of time; fewer: the end for now.
  // Call again to follow.
  absl::StatusOr<std::vector<v1::LogLine>> Read(size_t lines_max);

 private:
  struct Process;
  absl::Status FindProcesses();

  const std::string folder_;
  const LogSelection selection_;
  std::map<std::string, std::unique_ptr<Process>> processes_;  // By "<role>-<replica>".
};

}  // namespace troupe::scheduler
