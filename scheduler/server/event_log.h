// SPDX-License-Identifier: Apache-2.0
// EventLog: appends what happened to a job to `<output_dir>/events.jsonl`, and what happened to the cluster to the
// head's own, one JSON object a line: time, event, actor, node, reason. A thread of its own, so that a slow disk of a
// job holds nothing up; beyond its bounds lines are dropped and counted. Rotated: `events.jsonl.1` is the one before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "scheduler/core/events.h"

namespace troupe::scheduler {

class EventLog {
 public:
  static constexpr int64_t kFileBytesMax = 16 << 20;
  static constexpr size_t kQueuedMax = 10'000;  // About 3 MB.
  // How long an event waits for others to be written with: waking the thread costs more than the line.
  static constexpr absl::Duration kCompanyMax = absl::Milliseconds(5);

  // `head_dir`: the folder of the head's own events; "": they are dropped.
  explicit EventLog(std::string head_dir) : head_dir_(std::move(head_dir)), thread_([this] { WriteUntilClosed(); }) {}
  // Writes what is queued.
  ~EventLog();

  void Append(WriteEvent event);

 private:
  void WriteUntilClosed();
  void Write(const std::string& output_dir, const std::string& lines);

  const std::string head_dir_;
  Mutex mutex_;
  ConditionVariable work_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<WriteEvent> queue_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Last: it starts when everything else is there.
};

}  // namespace troupe::scheduler
