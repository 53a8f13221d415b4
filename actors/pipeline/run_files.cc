// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/run_files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

// How much of the end of metrics.jsonl is read to find its last line.
constexpr int64_t kTailBytesMax = 256 << 10;

absl::StatusOr<std::unique_ptr<AppendFile>> OpenFile(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(path));
  return std::make_unique<AppendFile>(std::move(file));
}

// The last whole line; a torn one (the writer died in it) is cut off.
std::string LastLine(AppendFile& file) {
  int64_t size = std::min(file.size(), kTailBytesMax);
  std::string tail(static_cast<size_t>(size), '\0');
  if (!file.ReadAt(file.size() - size, size, tail.data()).ok()) return "";
  size_t end = tail.rfind('\n');
  if (end == std::string::npos) end = 0;
  if (end + 1 != tail.size() && !tail.empty()) {
    file.Truncate(file.size() - size + static_cast<int64_t>(end == 0 ? 0 : end + 1)).IgnoreError();
  }
  size_t begin = end == 0 ? std::string::npos : tail.rfind('\n', end - 1);
  return tail.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? 0 : begin + 1));
}

double Now() { return absl::ToDoubleSeconds(WallNow() - absl::UnixEpoch()); }

std::string Dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunFiles>> RunFiles::Open(const std::string& output_dir, const std::string& job_id,
                                                         const std::vector<std::string>& loggers) {
  std::unique_ptr<RunFiles> files(new RunFiles);
  auto wanted = [&](const char* name) { return std::find(loggers.begin(), loggers.end(), name) != loggers.end(); };
  TROUPE_RETURN_IF_ERROR(MakeDirs(output_dir));
  files->job_id_ = job_id;
  files->events_path_ = output_dir + "/events.jsonl";
  if (wanted("jsonl")) {
    TROUPE_ASSIGN_OR_RETURN(files->metrics_, OpenFile(output_dir + "/metrics.jsonl"));
    TROUPE_ASSIGN_OR_RETURN(files->samples_, OpenFile(output_dir + "/samples.jsonl"));
    files->newest_metrics_ = LastLine(*files->metrics_);
    ordered_json last = ordered_json::parse(files->newest_metrics_, nullptr, false);
    if (last.is_object()) {
      files->last_step_ = last.value("step", int64_t{-1});
      files->last_attempt_ = last.value("attempt", int64_t{-1});
    }
  }
  if (wanted("tensorboard")) {
    TROUPE_ASSIGN_OR_RETURN(files->tensorboard_, EventFile::Create(output_dir + "/tensorboard", Now()));
  }
  return files;
}

void RunFiles::Append(std::unique_ptr<AppendFile>& file, const std::string& line) {
  if (file != nullptr) Told(file->path(), file->Append(line + "\n"));
}

absl::Status RunFiles::CheckInPlace() const {
  for (const auto* file : {&metrics_, &samples_}) {
    if (*file != nullptr) TROUPE_RETURN_IF_ERROR((*file)->CheckIsAt((*file)->path()));
  }
  return absl::OkStatus();
}

void RunFiles::Told(const std::string& path, const absl::Status& status) {
  if (status.ok() || std::exchange(told_, true)) return;
  std::fprintf(stderr, "cannot write %s: %s; the job goes on without these lines\n", path.c_str(),
               StatusText(status).c_str());
}

void RunFiles::Write(const WriteMetrics& line) {
  if (line.attempt == last_attempt_ && line.step == last_step_) return;
  last_attempt_ = line.attempt;
  last_step_ = line.step;
  ordered_json object;
  object["step"] = line.step;
  object["attempt"] = line.attempt;
  object["time"] = Now();
  for (const auto& [name, value] : line.values) {
    if (std::isfinite(value)) object[name] = value;
  }
  newest_metrics_ = Dump(object);
  Append(metrics_, newest_metrics_);
  if (tensorboard_ != nullptr) tensorboard_->Write(line.step, Now(), line.values);
}

void RunFiles::Write(const WriteSample& sample) {
  ordered_json object;
  object["step"] = sample.step;
  object["row_id"] = sample.score.row_id();
  object["prompt"] = sample.score.prompt_text();
  object["response"] = sample.score.response_text();
  object["answer"] = sample.score.answer();
  object["score"] = sample.score.score();
  Append(samples_, Dump(object));
}

// Opened for each line: the head writes into the file too, and puts a long one aside.
void RunFiles::Write(const Note& note) {
  ordered_json object;
  object["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", WallNow(), absl::UTCTimeZone());
  object["event"] = note.event;
  object["job"] = job_id_;
  object["reason"] = note.reason;
  object["level"] = note.routine ? "info" : "warning";
  absl::StatusOr<AppendFile> file = AppendFile::Open(events_path_);
  Told(events_path_, file.ok() ? file->Append(Dump(object) + "\n") : file.status());
  std::FILE* to = note.routine ? stdout : stderr;
  std::fprintf(to, "%s: %s\n", note.event.c_str(), note.reason.c_str());
  std::fflush(to);
}

}  // namespace troupe
