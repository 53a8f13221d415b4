// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/event_log.h"

#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "runtime/env/append_file.h"
#include "runtime/env/file.h"

namespace troupe::scheduler {
namespace {

std::string LineOf(const WriteEvent& event) {
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(event.unix_ms), absl::UTCTimeZone());
  line["event"] = event.event;
  line["job"] = event.job_id;
  if (!event.actor.empty()) line["actor"] = event.actor;
  if (!event.node_id.empty()) line["node"] = event.node_id;
  if (!event.reason.empty()) line["reason"] = event.reason;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
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
  MutexLock lock(mutex_);
  if (queue_.size() >= kQueuedMax) {
    ++dropped_;
    return;
  }
  queue_.push_back(std::move(event));
  work_.NotifyAll();
}

void EventLog::WriteUntilClosed() {
  for (;;) {
    std::deque<WriteEvent> batch;
    {
      MutexLock lock(mutex_);
      work_.WaitUntil(lock, Monotonic::Infinite(),
                      [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      batch.swap(queue_);
      if (dropped_ > 0) {
        batch.back().reason +=
            " (" + std::to_string(dropped_) + " events before this one were dropped: the disk is slow)";
        dropped_ = 0;
      }
    }
    std::string lines;
    for (size_t i = 0; i < batch.size(); ++i) {
      lines += LineOf(batch[i]);
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
