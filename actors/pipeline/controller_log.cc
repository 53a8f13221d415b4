// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/controller_log.h"

#include <optional>

#include "actors/trainer/core/checkpoint.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr int64_t kSnapshotBytesMax = int64_t{1} << 30;

absl::StatusOr<v1::PipelineRecord> Parse(std::string_view payload, const std::string& path) {
  v1::PipelineRecord record;
  if (record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return record;
  return absl::DataLossError(path + " holds something that is no record");
}

// The checkpoint that a new job begins from; nothing: from the beginning.
absl::StatusOr<std::optional<CheckpointInfo>> FindCheckpoint(const ControllerLogOptions& options,
                                                             std::vector<std::string>* told) {
  if (options.resume == "never") return std::nullopt;
  bool automatic = options.resume == "auto";
  std::string folder = automatic ? options.output_dir : options.resume;
  if (!automatic && FileExists(folder + "/" + kControllerPart)) {
    TROUPE_RETURN_IF_ERROR(VerifyCheckpoint(folder));
    return CheckpointInfo{0, folder};
  }
  absl::StatusOr<CheckpointInfo> newest = LatestCheckpoint(folder + "/checkpoints", told);
  if (newest.ok()) return *newest;
  if (automatic && absl::IsNotFound(newest.status())) return std::nullopt;
  return Annotate(newest.status(), "trainer.resume: " + folder);
}

// Rows of jobs before this one in the folder: what is needed of them is in the checkpoint. This job's rollouts may have
// begun theirs already.
absl::Status RemoveOldRows(const ControllerLogOptions& options) {
  std::string rows = options.output_dir + "/rows";
  absl::StatusOr<std::vector<std::string>> jobs = ListDirectory(rows);
  if (!jobs.ok()) return absl::OkStatus();
  for (const std::string& job : *jobs) {
    if (job != options.job_id) TROUPE_RETURN_IF_ERROR(RemoveTree(rows + "/" + job));
  }
  return absl::OkStatus();
}

// The controller's part of a checkpoint.
absl::StatusOr<v1::PipelineSnapshot> ReadSnapshot(const std::string& dir) {
  TROUPE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(dir + "/" + kControllerPart, kSnapshotBytesMax));
  v1::PipelineSnapshot saved;
  if (saved.ParseFromString(bytes)) return saved;
  return absl::DataLossError(dir + "/" + kControllerPart + " is damaged");
}

absl::StatusOr<v1::PipelineSnapshot> FirstSnapshot(const ControllerLogOptions& options, const PipelineDurable& fresh,
                                                   std::vector<std::string>* told) {
  TROUPE_ASSIGN_OR_RETURN(std::optional<CheckpointInfo> checkpoint, FindCheckpoint(options, told));
  if (!checkpoint) {
    v1::PipelineSnapshot snapshot = fresh.Snapshot();
    snapshot.set_job_id(options.job_id);
    return snapshot;
  }
  TROUPE_ASSIGN_OR_RETURN(v1::PipelineSnapshot saved, ReadSnapshot(checkpoint->dir));
  told->push_back("goes on after step " + std::to_string(saved.step()) + " from " + checkpoint->dir);
  return ResumedSnapshot(std::move(saved), options.job_id, checkpoint->dir, options.rollout_replicas);
}

// A synced file with this one record.
absl::StatusOr<RecordFile> WriteSnapshot(const v1::PipelineSnapshot& snapshot, const std::string& path) {
  v1::PipelineRecord record;
  *record.mutable_snapshot() = snapshot;
  TROUPE_RETURN_IF_ERROR(RemoveTree(path));
  TROUPE_ASSIGN_OR_RETURN(RecordFile file, RecordFile::Open(path, {}));
  TROUPE_RETURN_IF_ERROR(file.Append(record.SerializeAsString()).status());
  TROUPE_RETURN_IF_ERROR(file.Sync());
  return file;
}

}  // namespace

absl::StatusOr<v1::PipelineSnapshot> SnapshotToGoBackTo(const ControllerLogOptions& options,
                                                        const PipelineDurable& fresh, std::vector<std::string>* told) {
  TROUPE_ASSIGN_OR_RETURN(std::vector<CheckpointInfo> found, ListCheckpoints(options.output_dir + "/checkpoints"));
  for (auto info = found.rbegin(); info != found.rend(); ++info) {
    absl::Status whole = VerifyCheckpoint(info->dir);
    if (!whole.ok()) {
      told->push_back(MessageOf(whole));
      continue;
    }
    TROUPE_ASSIGN_OR_RETURN(v1::PipelineSnapshot saved, ReadSnapshot(info->dir));
    bool of_this_run = options.resume == "auto" || saved.job_id() == options.job_id;
    if (of_this_run) return ResumedSnapshot(std::move(saved), options.job_id, info->dir, options.rollout_replicas);
  }
  return FirstSnapshot(options, fresh, told);
}

v1::PipelineSnapshot ResumedSnapshot(v1::PipelineSnapshot saved, const std::string& job_id,
                                     const std::string& directory, int64_t rollout_replicas) {
  saved.set_job_id(job_id);
  saved.set_checkpoint_step(saved.step());
  saved.set_resumed_from(directory);
  saved.set_trainer_incarnation(0);  // whoever trains now begins a new attempt
  for (v1::IndexedGroup& group : *saved.mutable_index()->mutable_queue()) {
    for (v1::IndexedRow& row : *group.mutable_rows()) {
      const std::string& shard = row.meta().shard();
      int64_t replica = std::atoll(shard.c_str() + shard.rfind('/') + 1) % rollout_replicas;
      row.mutable_meta()->set_shard("rollout/" + std::to_string(replica));
    }
  }
  for (v1::GroupAssignment& assignment : *saved.mutable_assignments()) {
    assignment.set_replica(static_cast<int32_t>(assignment.replica() % rollout_replicas));
  }
  return saved;
}

absl::StatusOr<std::unique_ptr<ControllerLog>> ControllerLog::Open(const ControllerLogOptions& options,
                                                                   PipelineDurable& durable,
                                                                   std::vector<std::string>* told) {
  std::unique_ptr<ControllerLog> log(new ControllerLog(options.output_dir + "/controller.log"));
  std::vector<v1::PipelineRecord> records;
  bool ours = false;
  if (FileExists(log->path_)) {
    absl::StatusOr<RecordFile> file = RecordFile::Open(log->path_, [&](int64_t, std::string_view payload) {
      absl::StatusOr<v1::PipelineRecord> record = Parse(payload, log->path_);
      if (!record.ok()) return record.status();
      records.push_back(*std::move(record));
      return absl::OkStatus();
    });
    if (!file.ok()) return file.status();
    ours = !records.empty() && records[0].snapshot().job_id() == options.job_id;
    if (ours) {
      log->file_ = std::make_unique<RecordFile>(*std::move(file));
      log->snapshot_bytes_ = static_cast<int64_t>(records[0].ByteSizeLong());
    }
  }
  if (!ours) {
    std::vector<std::string> damaged;  // Or what it goes on from.
    TROUPE_ASSIGN_OR_RETURN(v1::PipelineSnapshot snapshot, FirstSnapshot(options, durable, &damaged));
    const bool from_nothing = snapshot.resumed_from().empty();
    if (from_nothing && !damaged.empty()) {
      return absl::DataLossError("no checkpoint in " + options.output_dir + " is whole (" + damaged.back() +
                                 "): restore one, or begin again in another trainer.output_dir");
    }
    told->insert(told->end(), damaged.begin(), damaged.end());
    if (from_nothing && options.last_attempt >= 0) {
      told->push_back("no checkpoint is in " + options.output_dir + ": begins again at step 0");
    }
    snapshot.set_attempt(std::max(snapshot.attempt(), options.last_attempt));
    TROUPE_RETURN_IF_ERROR(RemoveOldRows(options));
    TROUPE_RETURN_IF_ERROR(log->Compact(snapshot));
    records.assign(1, {});
    *records[0].mutable_snapshot() = std::move(snapshot);
  }
  for (const v1::PipelineRecord& record : records) {
    absl::Status applied = durable.Apply(record);
    if (!applied.ok()) return Annotate(applied, "controller.log does not fit this job");
  }
  durable.TakeReleased();
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> given_up,
                          GiveUpCheckpointsAfter(options.output_dir + "/checkpoints", durable.step()));
  told->insert(told->end(), given_up.begin(), given_up.end());
  return log;
}

absl::Status ControllerLog::Append(const std::vector<v1::PipelineRecord>& records) {
  for (const v1::PipelineRecord& record : records) {
    absl::StatusOr<int64_t> offset = file_->Append(record.SerializeAsString());
    if (!offset.ok()) return offset.status();
  }
  return absl::OkStatus();
}

absl::Status ControllerLog::Compact(const v1::PipelineSnapshot& snapshot) {
  if (file_ != nullptr) compact_after_bytes_ = file_->size() + kCompactRetryBytes;
  std::string aside = path_ + ".tmp";
  absl::StatusOr<RecordFile> file = WriteSnapshot(snapshot, aside);
  if (!file.ok()) {
    RemoveTree(aside).IgnoreError();
    return file.status();
  }
  absl::Status renamed = RenameDurably(aside, path_);
  if (!renamed.ok() && FileExists(aside)) {
    RemoveTree(aside).IgnoreError();
    return renamed;
  }
  // Renamed, though perhaps not for certain after a loss of power: what comes now belongs in the file of that name.
  file_ = std::make_unique<RecordFile>(*std::move(file));
  snapshot_bytes_ = file_->size();
  compact_after_bytes_ = 0;
  return renamed;
}

}  // namespace troupe
