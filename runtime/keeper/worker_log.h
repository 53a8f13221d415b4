// SPDX-License-Identifier: Apache-2.0
// WorkerLog: the output of one worker as rotated files of time-stamped lines:
//   2026-11-30T10:45:46.123456Z O text        (O: stdout, E: stderr; the time is when the keeper read it, UTC)
// `path` is the newest file, `path.1` the one before it, and so on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "runtime/base/monotonic.h"
#include "runtime/env/unique_fd.h"
#include "runtime/keeper/line_splitter.h"

namespace troupe::keeper {

enum class OutputStream : char { kStdout = 'O', kStderr = 'E' };

struct WorkerLogOptions {
  std::string path;
  int64_t file_bytes_max = 16 << 20;
  int files_max = 4;  // The newest included.
};

// Never fails and never waits for space: lines that cannot be written are dropped and counted, and the count is written
// as a line of its own when writing works again. Not thread-safe.
class WorkerLog {
 public:
  // How often a file that cannot be opened or written is tried again.
  static constexpr absl::Duration kRetryInterval = absl::Seconds(1);

  explicit WorkerLog(WorkerLogOptions options);

  // Output of the worker as it was read. `wall` is the time of its lines, `now` paces retries.
  void Append(OutputStream stream, std::string_view bytes, absl::Time wall, Monotonic now);
  // Writes unfinished lines and closes the file.
  void Finish(absl::Time wall, Monotonic now);

  int64_t lines_dropped() const { return lines_dropped_; }

 private:
  void Write(const std::string& lines, absl::Time wall, Monotonic now);
  bool EnsureOpen(Monotonic now);
  void Rotate();
  void Drop(std::string_view lines, Monotonic now);

  const WorkerLogOptions options_;
  LineSplitter stdout_;
  LineSplitter stderr_;
  UniqueFd file_;
  int64_t file_bytes_ = 0;
  bool cut_in_line_ = false;      // The file ends within a line.
  int64_t lines_dropped_ = 0;     // Over all.
  int64_t lines_unreported_ = 0;  // Dropped since the last line that said so.
  std::string drop_reason_;
  Monotonic retry_at_;
};

// "2026-11-30T10:45:46.123456Z".
std::string FormatLogTime(absl::Time time);

}  // namespace troupe::keeper
