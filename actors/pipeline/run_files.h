// SPDX-License-Identifier: Apache-2.0
// RunFiles: what a run tells people, in its folder: metrics.jsonl, samples.jsonl, events.jsonl and TensorBoard's event
// file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actors/metrics/event_file.h"
#include "actors/pipeline/pipeline_event.h"
#include "runtime/env/append_file.h"

namespace troupe {

// Not thread-safe. A full disk is told once on stderr and never ends the job: these files are for people.
class RunFiles {
 public:
  // `loggers`: of trainer.logger, "jsonl" and "tensorboard".
  static absl::StatusOr<std::unique_ptr<RunFiles>> Open(const std::string& output_dir, const std::string& job_id,
                                                        const std::vector<std::string>& loggers);

  // Writes the line unless the last line of the file is of this attempt and step already.
  void Write(const WriteMetrics& line);
  void Write(const WriteSample& sample);
  // A line of the schema that the head writes into the same file (scheduler/server/event_log.h).
  void Write(const Note& note);

  // FAILED_PRECONDITION: a file was removed or moved, so its lines are lost.
  absl::Status CheckInPlace() const;

  // Of the last line of the metrics, by whichever job in this folder; -1 when there is none.
  int64_t last_attempt() const { return last_attempt_; }
  // The newest metrics line as JSON; "" when there is none.
  const std::string& newest_metrics() const { return newest_metrics_; }

 private:
  RunFiles() = default;
  void Append(std::unique_ptr<AppendFile>& file, const std::string& line);
  void Told(const std::string& path, const absl::Status& status);

  std::string job_id_, events_path_;
  std::unique_ptr<AppendFile> metrics_, samples_;
  std::unique_ptr<EventFile> tensorboard_;
  std::string newest_metrics_;
  int64_t last_attempt_ = -1, last_step_ = -1;
  bool told_ = false;
};

}  // namespace troupe
