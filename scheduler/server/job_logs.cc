// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/job_logs.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe::scheduler {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;
constexpr size_t kLineBytesMax = 64 << 10;  // The keeper cuts lines far below.
constexpr int kRotatedMax = 100;

struct FileName {
  std::string role;
  int replica = 0;
  std::string process;  // "rollout-0"
};

// "rollout-0.log", and not "rollout-0.log.1".
std::optional<FileName> ParseName(const std::string& name) {
  constexpr std::string_view kEnd = ".log";
  if (name.size() <= kEnd.size() || name.substr(name.size() - kEnd.size()) != kEnd) return std::nullopt;
  FileName file{.process = name.substr(0, name.size() - kEnd.size())};
  size_t dash = file.process.rfind('-');
  if (dash == std::string::npos || dash == 0) return std::nullopt;
  file.role = file.process.substr(0, dash);
  const char* end = file.process.data() + file.process.size();
  auto [parsed, error] = std::from_chars(file.process.data() + dash + 1, end, file.replica);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return file;
}

uint64_t InodeOf(const std::string& path) {
  absl::StatusOr<FileInfo> info = StatFile(path);
  return info.ok() ? info->inode : 0;
}

}  // namespace

v1::LogLine ParseLogLine(const std::string& line) {
  v1::LogLine parsed;
  size_t space = line.find(' ');
  absl::Time time;
  bool formed = space != std::string::npos && line.size() >= space + 2 &&
                (line[space + 1] == 'O' || line[space + 1] == 'E') &&
                (line.size() == space + 2 || line[space + 2] == ' ') &&
                absl::ParseTime(absl::RFC3339_full, line.substr(0, space), &time, nullptr);
  if (!formed) {
    parsed.set_text(line);
    return parsed;
  }
  parsed.set_unix_us(absl::ToUnixMicros(time));
  parsed.set_is_stderr(line[space + 1] == 'E');
  if (line.size() > space + 3) parsed.set_text(line.substr(space + 3));
  return parsed;
}

// The lines of one process: its oldest file first. Files are told apart by inode, since rotation renames them.
struct JobLogs::Process {
  std::string path;  // Of the newest.
  FileName name;
  const LogSelection* selection;
  std::deque<v1::LogLine> lines;  // Read and not given out.
  std::ifstream file;
  uint64_t inode = 0;  // Of `file`.
  std::string rest;    // The begin of an unfinished line.
  int64_t last_us = 0;

  // Whether a line is there.
  bool Fill() {
    while (lines.empty()) {
      if (!file.is_open() && !OpenNext()) return false;
      if (ReadChunk()) continue;
      if (!OpenNext()) return false;
    }
    return true;
  }

  // The file after the one that was read, or the oldest.
  bool OpenNext() {
    std::vector<std::string> paths;  // Oldest first.
    for (int n = 1; n < kRotatedMax && FileExists(absl::StrCat(path, ".", n)); ++n) {
      paths.insert(paths.begin(), absl::StrCat(path, ".", n));
    }
    paths.push_back(path);
    size_t next = 0;
    for (size_t i = 0; inode != 0 && i < paths.size(); ++i) {
      if (InodeOf(paths[i]) == inode) next = i + 1;
    }
    if (next >= paths.size()) return false;
    uint64_t found = InodeOf(paths[next]);
    std::ifstream opened(paths[next], std::ios::binary);
    if (found == 0 || !opened) return false;
    file = std::move(opened);
    inode = found;
    return true;
  }

  // False at the end of the file for now.
  bool ReadChunk() {
    std::string chunk(kChunkBytes, '\0');
    file.clear();
    file.read(chunk.data(), kChunkBytes);
    chunk.resize(static_cast<size_t>(file.gcount()));
    if (chunk.empty()) return false;
    rest += chunk;
    size_t begin = 0;
    for (size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
      Add(rest.substr(begin, end - begin));
    }
    rest.erase(0, begin);
    if (rest.size() > kLineBytesMax) Add(std::exchange(rest, {}));
    return true;
  }

  void Add(const std::string& text) {
    v1::LogLine line = ParseLogLine(text);
    // A line without a time stays behind the one before it.
    if (line.unix_us() == 0) line.set_unix_us(last_us);
    last_us = line.unix_us();
    if (line.unix_us() < selection->since_unix_us) return;
    line.mutable_actor()->set_job_id(selection->job_id);
    line.mutable_actor()->set_role(name.role);
    line.mutable_actor()->set_replica(name.replica);
    lines.push_back(std::move(line));
  }
};

JobLogs::JobLogs(std::string output_dir, LogSelection selection)
    : folder_(std::move(output_dir) + "/logs"), selection_(std::move(selection)) {}

JobLogs::~JobLogs() = default;

absl::StatusOr<std::vector<v1::LogLine>> JobLogs::Read(size_t lines_max) {
  TROUPE_RETURN_IF_ERROR(FindProcesses());
  std::vector<v1::LogLine> lines;
  while (lines.size() < lines_max) {
    Process* earliest = nullptr;
    for (auto& [id, process] : processes_) {
      if (!process->Fill()) continue;
      if (earliest == nullptr || process->lines.front().unix_us() < earliest->lines.front().unix_us()) {
        earliest = process.get();
      }
    }
    if (earliest == nullptr) break;
    lines.push_back(std::move(earliest->lines.front()));
    earliest->lines.pop_front();
  }
  return lines;
}

absl::Status JobLogs::FindProcesses() {
  absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder_);
  if (names.status().code() == absl::StatusCode::kNotFound) return absl::OkStatus();  // Nothing has started yet.
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    std::optional<FileName> file = ParseName(name);
    bool wanted = file && (selection_.role.empty() || file->role == selection_.role) &&
                  (selection_.replica < 0 || file->replica == selection_.replica);
    if (!wanted || processes_.contains(file->process)) continue;
    auto process = std::make_unique<Process>();
    process->path = absl::StrCat(folder_, "/", name);
    process->name = *file;
    process->selection = &selection_;
    processes_[file->process] = std::move(process);
  }
  return absl::OkStatus();
}

}  // namespace troupe::scheduler
