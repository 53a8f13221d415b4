// SPDX-License-Identifier: Apache-2.0
// ControllerLog: the controller's records in the run's folder (controller.log), and how a controller begins: it goes on
// with the log of its own job, or a new job begins from a checkpoint or from nothing.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actors/pipeline/pipeline_durable.h"
#include "runtime/stream/record_file.h"

namespace troupe {

// Beyond this size, and twice its snapshot's, the log is begun anew from a snapshot: recovery stays short, and each
// byte of a snapshot that grows is written about twice.
inline constexpr int64_t kControllerLogBytesMax = int64_t{8} << 20;
// How much it grows before a beginning anew that failed (no space) is tried again.
inline constexpr int64_t kCompactRetryBytes = int64_t{1} << 20;
// The controller's part of a checkpoint.
inline constexpr char kControllerPart[] = "controller.pb";

struct ControllerLogOptions {
  std::string output_dir;
  std::string job_id;
  std::string resume = "auto";  // auto | never | DIR: a checkpoint, or a run's folder
  int64_t rollout_replicas = 1;
  int64_t last_attempt = -1;  // the newest that the folder's metrics tell of: a new job's are later
};

class ControllerLog {
 public:
  // `durable` is fresh; afterwards it is what the controller goes on with. `told`: sentences for people about what was
  // found. Checkpoints in the folder that are later than where it goes on from are given up. NOT_FOUND: no checkpoint
  // in the DIR asked for; DATA_LOSS: the log or the checkpoint is damaged.
  static absl::StatusOr<std::unique_ptr<ControllerLog>> Open(const ControllerLogOptions& options,
                                                             PipelineDurable& durable, std::vector<std::string>* told);

  // In the page cache when it returns.
  absl::Status Append(const std::vector<v1::PipelineRecord>& records);
  absl::Status Sync() { return file_->Sync(); }
  // FAILED_PRECONDITION: it was removed or moved.
  absl::Status CheckInPlace() const { return file_->CheckIsAt(path_); }
  bool IsLong() const {
    return file_->size() > std::max({kControllerLogBytesMax, 2 * snapshot_bytes_, compact_after_bytes_});
  }
  // Begins the log anew with this state, synced. After an error the log goes on in the file that it had.
  absl::Status Compact(const v1::PipelineSnapshot& snapshot);

 private:
  explicit ControllerLog(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::unique_ptr<RecordFile> file_;
  int64_t snapshot_bytes_ = 0;       // of the snapshot that the file begins with
  int64_t compact_after_bytes_ = 0;  // backoff after a failure
};

// What a job goes on from when its newest checkpoint turned out to be damaged: the newest whole one of its own, or of
// the run before it that it resumed, or what it began from (`fresh` if from nothing). Whatever is passed over is told.
absl::StatusOr<v1::PipelineSnapshot> SnapshotToGoBackTo(const ControllerLogOptions& options,
                                                        const PipelineDurable& fresh, std::vector<std::string>* told);

// The snapshot of a checkpoint as the one a new job begins with: rows are restored from `directory`; where the number
// of rollouts differs, their shards are spread anew.
v1::PipelineSnapshot ResumedSnapshot(v1::PipelineSnapshot saved, const std::string& job_id,
                                     const std::string& directory, int64_t rollout_replicas);

}  // namespace troupe
