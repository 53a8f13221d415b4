// SPDX-License-Identifier: Apache-2.0
// RowShard: the rows of one producer, in segment files of its own folder, with an index of their places in memory.
//
// A row or column is in the page cache when the call returns, so it survives the death of the process: the next life
// opens the folder and has the same rows. Segments are deleted from the oldest on, as soon as none of their records is
// needed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/stream/record_file.h"
#include "troupe/v1/experience.pb.h"

namespace troupe {

struct RowShardOptions {
  std::string directory;                          // made when missing
  std::string name;                               // "rollout/0"
  int64_t segment_bytes_max = int64_t{64} << 20;  // a new segment begins beyond it: the unit of deletion
  // More are RESOURCE_EXHAUSTED, until some are released.
  int64_t rows_max = int64_t{1} << 20;    // about 200 bytes of index a row
  int64_t bytes_max = int64_t{64} << 30;  // of all segments: a part of what a disk holds
};

// Safe from any thread.
class RowShard {
 public:
  // DATA_LOSS: a segment is damaged before its end.
  static absl::StatusOr<std::unique_ptr<RowShard>> Open(RowShardOptions options);

  // Adds rows. One whose id is there already is left as it was (the same sample made again).
  absl::Status Append(const std::vector<v1::Row>& rows);

  // Adds a column to rows. A row that has it keeps its first value: a scorer whose answer was lost may compute it again
  // with other last bits. NOT_FOUND names the first row that does not exist; ALREADY_EXISTS one that has a value of
  // another type or length in this column. Nothing is changed then.
  absl::Status PutColumn(const v1::PutColumnRequest& request);

  // Rows in the order asked for, with the columns named (empty: all), one after the other to `take`, which may stop it
  // by an error. NOT_FOUND names the first row that does not exist.
  template <typename Take>
  absl::Status Fetch(const std::vector<std::string>& row_ids, const std::vector<std::string>& columns, Take take) {
    for (const std::string& row_id : row_ids) {
      absl::StatusOr<v1::Row> row = Read(row_id, columns);
      if (!row.ok()) return row.status();
      if (absl::Status taken = take(*std::move(row)); !taken.ok()) return taken;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<v1::Row> Read(const std::string& row_id, const std::vector<std::string>& columns);

  // What the index of the controller needs of the rows of a group that are there, by sample index.
  std::vector<v1::RowMeta> GroupRows(const std::string& group_id);

  // Forgets rows; ids that do not exist are ignored.
  absl::Status Release(const std::vector<std::string>& row_ids);

  // Writes rows with all their columns to one file, synced. NOT_FOUND as of Fetch.
  absl::Status Save(const std::vector<std::string>& row_ids, const std::string& path);
  // Adds those of `row_ids` that the file holds.
  absl::Status Load(const std::vector<std::string>& row_ids, const std::string& path);

  int64_t rows() const;
  int64_t bytes() const;  // of all segments

 private:
  struct Place {
    int64_t segment = 0;
    int64_t offset = 0;
  };
  struct Entry {
    Place row;
    std::map<std::string, Place> columns;  // added later
    v1::RowMeta meta;
  };
  struct Segment {
    std::unique_ptr<RecordFile> file;
    int64_t live = 0;  // records of rows that are not released
  };

  explicit RowShard(RowShardOptions options) : options_(std::move(options)) {}
  int64_t SegmentBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OpenSegment(int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Recover(int64_t segment, int64_t offset, std::string_view payload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Place> AppendRecord(const v1::StoredRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::StoredRecord> ReadRecord(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void IndexRow(const v1::Row& row, int64_t payload_bytes, Place place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& row_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DeleteOldSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string SegmentPath(int64_t number) const;

  const RowShardOptions options_;
  mutable Mutex mutex_;
  std::map<int64_t, Segment> segments_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::map<int32_t, std::string>> groups_ ABSL_GUARDED_BY(mutex_);  // row_id by sample
};

}  // namespace troupe
