// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/event_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/env/append_file.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"

namespace troupe::scheduler {
namespace {

// Nearly every text is plain; the library is asked for the others only.
void AddText(const std::string& text, std::string& line) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    absl::StrAppend(&line, "\"", text, "\"");
  } else {
    line += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

void AddField(const char* name, const std::string& text, std::string& line) {
  if (text.empty()) return;
  absl::StrAppend(&line, ",\"", name, "\":");
  AddText(text, line);
}

// Many events share a second, and the calendar costs more than the rest of the line.
class Seconds {
 public:
  std::string_view Text(int64_t second) {
    if (second != second_) {
      second_ = second;
      text_ = absl::FormatTime("%Y-%m-%dT%H:%M:%S", absl::FromUnixSeconds(second), absl::UTCTimeZone());
    }
    return text_;
  }

 private:
  int64_t second_ = INT64_MIN;
  std::string text_;
};

void AddLine(const WriteEvent& event, Seconds& seconds, std::string& lines) {
  const std::string_view second = seconds.Text(event.unix_ms / 1000);
  absl::StrAppend(&lines, "{\"time\":\"", absl::string_view(second.data(), second.size()), ".",
                  absl::Dec(event.unix_ms % 1000, absl::kZeroPad3), "Z\"");
  AddField("event", event.event, lines);
  AddField("job", event.job_id, lines);
  AddField("actor", event.actor, lines);
  AddField("node", event.node_id, lines);
  AddField("reason", event.reason, lines);
  lines += "}\n";
}

}  // namespace

EventLog::~EventLog() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
    work_.NotifyAll();
  }
  thread_.join();
}

void EventLog::Append(WriteEvent event) {
  if (event.job_id.empty()) event.output_dir = head_dir_;
  if (event.output_dir.empty()) return;
  MutexLock lock(mutex_);
  if (queue_.size() >= kQueuedMax) {
    ++dropped_;
    return;
  }
  queue_.push_back(std::move(event));
  if (queue_.size() == 1 || queue_.size() == kQueuedMax / 2) work_.NotifyAll();
}

void EventLog::WriteUntilClosed() {
  for (Seconds seconds;;) {
    std::deque<WriteEvent> batch;
    {
      MutexLock lock(mutex_);
      work_.WaitUntil(lock, Monotonic::Infinite(),
                      [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work_.WaitUntil(lock, MonotonicNow() + kCompanyMax,
                      [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return closing_ || queue_.size() >= kQueuedMax / 2; });
      batch.swap(queue_);
      if (dropped_ > 0) {
        batch.back().reason +=
            " (" + std::to_string(dropped_) + " events before this one were dropped: the disk is slow)";
        dropped_ = 0;
      }
    }
    std::string lines;
    for (size_t i = 0; i < batch.size(); ++i) {
      AddLine(batch[i], seconds, lines);
      if (i + 1 < batch.size() && batch[i + 1].output_dir == batch[i].output_dir) continue;
      Write(batch[i].output_dir, lines);
      lines.clear();
    }
  }
}

// A job's folder that cannot be written is the job's trouble: the events are lost, the head goes on.
void EventLog::Write(const std::string& output_dir, const std::string& lines) {
  std::string path = output_dir + "/events.jsonl";
  absl::StatusOr<AppendFile> file = AppendFile::Open(path);
  if (absl::IsNotFound(file.status()) && MakeDirs(output_dir).ok()) file = AppendFile::Open(path);
  if (file.ok() && file->size() > kFileBytesMax) {
    RenameDurably(path, path + ".1").IgnoreError();
    file = AppendFile::Open(path);
  }
  if (file.ok()) file->Append(lines).IgnoreError();
}

}  // namespace troupe::scheduler
