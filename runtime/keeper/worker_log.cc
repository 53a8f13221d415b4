// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/worker_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

namespace troupe::keeper {

WorkerLog::WorkerLog(WorkerLogOptions options) : options_(std::move(options)) {}

void WorkerLog::Append(OutputStream stream, std::string_view bytes, absl::Time wall, Monotonic now) {
  std::string prefix = FormatLogTime(wall) + ' ' + static_cast<char>(stream) + ' ';
  std::string lines;
  LineSplitter& splitter = stream == OutputStream::kStdout ? stdout_ : stderr_;
  splitter.Feed(bytes, [&](std::string_view line) { lines.append(prefix).append(line).push_back('\n'); });
  if (!lines.empty()) Write(lines, wall, now);
}

void WorkerLog::Finish(absl::Time wall, Monotonic now) {
  std::string lines;
  for (OutputStream stream : {OutputStream::kStdout, OutputStream::kStderr}) {
    std::string prefix = FormatLogTime(wall) + ' ' + static_cast<char>(stream) + ' ';
    LineSplitter& splitter = stream == OutputStream::kStdout ? stdout_ : stderr_;
    splitter.Finish([&](std::string_view line) { lines.append(prefix).append(line).push_back('\n'); });
  }
  if (!lines.empty() || lines_unreported_ > 0) {
    retry_at_ = Monotonic();
    Write(lines, wall, now);
  }
  file_.Reset();
}

void WorkerLog::Write(const std::string& lines, absl::Time wall, Monotonic now) {
  if (!EnsureOpen(now)) return Drop(lines, now);
  if (file_bytes_ >= options_.file_bytes_max) {
    Rotate();
    if (!EnsureOpen(now)) return Drop(lines, now);
  }
  std::string batch;
  if (cut_in_line_) batch.push_back('\n');
  if (lines_unreported_ > 0) {
    batch += FormatLogTime(wall) + " E [keeper] " + std::to_string(lines_unreported_) +
             " lines were dropped: " + drop_reason_ + "\n";
  }
  size_t head_bytes = batch.size();
  batch += lines;
  size_t done = 0;
  while (done < batch.size()) {
    ssize_t written = ::write(file_.get(), batch.data() + done, batch.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    done += written;
  }
  int error = done < batch.size() ? errno : 0;
  file_bytes_ += done;
  if (done > 0) cut_in_line_ = batch[done - 1] != '\n';
  if (done >= head_bytes) lines_unreported_ = 0;
  if (error != 0) {
    drop_reason_ = options_.path + ": " + std::strerror(error);
    Drop(std::string_view(batch).substr(std::max(done, head_bytes)), now);
    file_.Reset();
  }
}

bool WorkerLog::EnsureOpen(Monotonic now) {
  if (file_.valid()) return true;
  if (now < retry_at_) return false;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(options_.path).parent_path(), ignored);
  // Non-blocking, so that a FIFO in the place of the file cannot hold the keeper up.
  file_ = UniqueFd(::open(options_.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!file_.valid()) {
    drop_reason_ = options_.path + ": " + std::strerror(errno);
    return false;
  }
  struct stat info {};
  file_bytes_ = ::fstat(file_.get(), &info) == 0 ? info.st_size : 0;
  return true;
}

void WorkerLog::Rotate() {
  file_.Reset();
  cut_in_line_ = false;
  for (int i = std::max(options_.files_max, 1) - 1; i >= 1; --i) {
    std::string from = i == 1 ? options_.path : options_.path + "." + std::to_string(i - 1);
    std::string to = options_.path + "." + std::to_string(i);
    ::rename(from.c_str(), to.c_str());
  }
  if (options_.files_max <= 1) ::unlink(options_.path.c_str());
}

void WorkerLog::Drop(std::string_view lines, Monotonic now) {
  int64_t count = std::count(lines.begin(), lines.end(), '\n');
  lines_dropped_ += count;
  lines_unreported_ += count;
  if (retry_at_ <= now) retry_at_ = now + kRetryInterval;
}

std::string FormatLogTime(absl::Time time) {
  int64_t us = absl::ToUnixMicros(time);
  std::time_t seconds = us / 1'000'000;
  std::tm fields{};
  ::gmtime_r(&seconds, &fields);
  char text[64];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", fields.tm_year + 1900, fields.tm_mon + 1,
                fields.tm_mday, fields.tm_hour, fields.tm_min, fields.tm_sec, static_cast<int>(us % 1'000'000));
  return text;
}

}  // namespace troupe::keeper
