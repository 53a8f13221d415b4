// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/row_shard.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr std::string_view kSegmentPrefix = "segment-";

v1::RowMeta MetaOf(const v1::Row& row, const std::string& shard, int64_t payload_bytes) {
  v1::RowMeta meta;
  meta.set_row_id(row.row_id());
  meta.set_group_id(row.group_id());
  meta.set_shard(shard);
  *meta.mutable_spans() = row.spans();
  auto length = [&](const char* column) {
    auto it = row.columns().find(column);
    return it == row.columns().end() ? 0 : it->second.int32s().values_size();
  };
  meta.set_prompt_length(length("prompt_ids"));
  meta.set_response_length(length("response_ids"));
  meta.set_payload_bytes(payload_bytes);
  meta.set_finish_reason(row.finish_reason());
  meta.set_sample_index(row.sample_index());
  return meta;
}

// Type and length.
std::pair<int, size_t> ShapeOf(const v1::ColumnValue& value) {
  switch (value.value_case()) {
    case v1::ColumnValue::kInt32S:
      return {value.value_case(), static_cast<size_t>(value.int32s().values_size())};
    case v1::ColumnValue::kFloats:
      return {value.value_case(), static_cast<size_t>(value.floats().values_size())};
    case v1::ColumnValue::kText:
      return {value.value_case(), value.text().size()};
    case v1::ColumnValue::kBlob:
      return {value.value_case(), value.blob().size()};
    default:
      return {value.value_case(), 1};
  }
}

absl::Status NoRow(const std::string& shard, const std::string& row_id) {
  return absl::NotFoundError("shard " + shard + " has no row '" + row_id + "'");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowShard>> RowShard::Open(RowShardOptions options) {
  TROUPE_RETURN_IF_ERROR(MakeDirs(options.directory));
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(options.directory));
  std::unique_ptr<RowShard> shard(new RowShard(std::move(options)));
  MutexLock lock(shard->mutex_);
  for (const std::string& name : names) {
    long long number = 0;
    if (std::sscanf(name.c_str(), "segment-%lld.rows", &number) != 1) continue;
    TROUPE_RETURN_IF_ERROR(shard->OpenSegment(number));
  }
  if (shard->segments_.empty()) TROUPE_RETURN_IF_ERROR(shard->OpenSegment(1));
  shard->DeleteOldSegments();
  return shard;
}

std::string RowShard::SegmentPath(int64_t number) const {
  std::string digits = std::to_string(number);
  return options_.directory + "/" + std::string(kSegmentPrefix) +
         std::string(8 - std::min<size_t>(8, digits.size()), '0') + digits + ".rows";
}

absl::Status RowShard::OpenSegment(int64_t number) {
  auto visit = [&](int64_t offset, std::string_view payload) { return Recover(number, offset, payload); };
  segments_[number];  // so that Recover can count in it
  absl::StatusOr<RecordFile> file = RecordFile::Open(SegmentPath(number), visit);
  if (!file.ok()) return file.status();
  segments_[number].file = std::make_unique<RecordFile>(*std::move(file));
  return absl::OkStatus();
}

absl::Status RowShard::Recover(int64_t segment, int64_t offset, std::string_view payload) {
  v1::StoredRecord record;
  if (!record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("segment " + SegmentPath(segment) + " holds a record that is no row");
  }
  if (record.has_row()) {
    if (!entries_.contains(record.row().row_id())) IndexRow(record.row(), std::ssize(payload), {segment, offset});
  } else if (record.has_column()) {
    auto it = entries_.find(record.column().row_id());
    if (it == entries_.end()) return absl::OkStatus();  // released, its segment deleted
    it->second.columns[record.column().name()] = {segment, offset};
    ++segments_[segment].live;
  } else {
    for (const std::string& row_id : record.release().row_ids()) Forget(row_id);
  }
  return absl::OkStatus();
}

absl::Status RowShard::Append(const std::vector<v1::Row>& rows) {
  MutexLock lock(mutex_);
  for (const v1::Row& row : rows) {
    if (entries_.contains(row.row_id())) continue;
    TROUPE_RETURN_IF_ERROR(CheckRoom());
    v1::StoredRecord record;
    *record.mutable_row() = row;
    TROUPE_ASSIGN_OR_RETURN(Place place, AppendRecord(record));
    IndexRow(row, static_cast<int64_t>(record.ByteSizeLong()), place);
  }
  return absl::OkStatus();
}

absl::Status RowShard::CheckRoom() const {
  int64_t bytes = SegmentBytes();
  if (std::ssize(entries_) < options_.rows_max && bytes < options_.bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError("shard " + options_.name + " holds " + std::to_string(entries_.size()) +
                                      " rows (" + std::to_string(bytes >> 20) +
                                      " MiB) that no checkpoint has released yet: set trainer.save_freq, so that one "
                                      "is written more often (0: only at the end)");
}

absl::Status RowShard::PutColumn(const v1::PutColumnRequest& request) {
  if (request.row_ids_size() != request.values_size())
    return absl::InvalidArgumentError("as many values as row_ids are needed");
  MutexLock lock(mutex_);
  std::vector<int> missing;
  for (int i = 0; i < request.row_ids_size(); ++i) {
    auto it = entries_.find(request.row_ids(i));
    if (it == entries_.end()) return NoRow(options_.name, request.row_ids(i));
    auto column = it->second.columns.find(request.column());
    if (column == it->second.columns.end()) {
      missing.push_back(i);
      continue;
    }
    TROUPE_ASSIGN_OR_RETURN(v1::StoredRecord record, ReadRecord(column->second));
    if (ShapeOf(record.column().value()) != ShapeOf(request.values(i))) {
      return absl::AlreadyExistsError("row '" + request.row_ids(i) +
                                      "' has a value of another type or length in column " + request.column());
    }
  }
  for (int i : missing) {
    v1::StoredRecord record;
    record.mutable_column()->set_row_id(request.row_ids(i));
    record.mutable_column()->set_name(request.column());
    *record.mutable_column()->mutable_value() = request.values(i);
    TROUPE_ASSIGN_OR_RETURN(Place place, AppendRecord(record));
    entries_[request.row_ids(i)].columns[request.column()] = place;
    ++segments_[place.segment].live;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Row> RowShard::Read(const std::string& row_id, const std::vector<std::string>& columns) {
  MutexLock lock(mutex_);
  auto it = entries_.find(row_id);
  if (it == entries_.end()) return NoRow(options_.name, row_id);
  TROUPE_ASSIGN_OR_RETURN(v1::StoredRecord record, ReadRecord(it->second.row));
  v1::Row row = std::move(*record.mutable_row());
  auto wanted = [&](const std::string& name) {
    return columns.empty() || std::find(columns.begin(), columns.end(), name) != columns.end();
  };
  std::vector<std::string> unwanted;
  for (const auto& [name, value] : row.columns()) {
    if (!wanted(name)) unwanted.push_back(name);
  }
  for (const std::string& name : unwanted) row.mutable_columns()->erase(name);
  for (const auto& [name, place] : it->second.columns) {
    if (!wanted(name)) continue;
    TROUPE_ASSIGN_OR_RETURN(v1::StoredRecord column, ReadRecord(place));
    (*row.mutable_columns())[name] = std::move(*column.mutable_column()->mutable_value());
  }
  return row;
}

std::vector<v1::RowMeta> RowShard::GroupRows(const std::string& group_id) {
  MutexLock lock(mutex_);
  std::vector<v1::RowMeta> metas;
  auto group = groups_.find(group_id);
  if (group == groups_.end()) return metas;
  for (const auto& [sample, row_id] : group->second) metas.push_back(entries_.at(row_id).meta);
  return metas;
}

absl::Status RowShard::Release(const std::vector<std::string>& row_ids) {
  MutexLock lock(mutex_);
  v1::StoredRecord record;
  for (const std::string& row_id : row_ids) {
    if (entries_.contains(row_id)) record.mutable_release()->add_row_ids(row_id);
  }
  if (!record.has_release()) return absl::OkStatus();
  TROUPE_RETURN_IF_ERROR(AppendRecord(record).status());
  for (const std::string& row_id : record.release().row_ids()) Forget(row_id);
  DeleteOldSegments();
  return absl::OkStatus();
}

absl::Status RowShard::Save(const std::vector<std::string>& row_ids, const std::string& path) {
  TROUPE_RETURN_IF_ERROR(RemoveTree(path));
  TROUPE_ASSIGN_OR_RETURN(RecordFile file, RecordFile::Open(path, {}));
  TROUPE_RETURN_IF_ERROR(Fetch(row_ids, {}, [&](v1::Row row) {
    v1::StoredRecord record;
    *record.mutable_row() = std::move(row);
    return file.Append(record.SerializeAsString()).status();
  }));
  return file.Sync();
}

absl::Status RowShard::Load(const std::vector<std::string>& row_ids, const std::string& path) {
  absl::flat_hash_map<std::string, bool> wanted;
  for (const std::string& row_id : row_ids) wanted[row_id] = true;
  std::vector<v1::Row> rows;
  TROUPE_RETURN_IF_ERROR(RecordFile::Open(path, [&](int64_t, std::string_view payload) {
                           v1::StoredRecord record;
                           if (!record.ParseFromArray(payload.data(), static_cast<int>(payload.size())) ||
                               !record.has_row()) {
                             return absl::DataLossError(path + " holds a record that is no row");
                           }
                           if (wanted.contains(record.row().row_id())) rows.push_back(record.row());
                           return absl::OkStatus();
                         }).status());
  return Append(rows);
}

int64_t RowShard::rows() const {
  MutexLock lock(mutex_);
  return std::ssize(entries_);
}

int64_t RowShard::bytes() const {
  MutexLock lock(mutex_);
  return SegmentBytes();
}

int64_t RowShard::SegmentBytes() const {
  int64_t bytes = 0;
  for (const auto& [number, segment] : segments_) bytes += segment.file->size();
  return bytes;
}

absl::StatusOr<RowShard::Place> RowShard::AppendRecord(const v1::StoredRecord& record) {
  if (segments_.rbegin()->second.file->size() >= options_.segment_bytes_max) {
    TROUPE_RETURN_IF_ERROR(OpenSegment(segments_.rbegin()->first + 1));
  }
  auto& [number, segment] = *segments_.rbegin();
  absl::StatusOr<int64_t> offset = segment.file->Append(record.SerializeAsString());
  if (!offset.ok()) return offset.status();
  return Place{number, *offset};
}

absl::StatusOr<v1::StoredRecord> RowShard::ReadRecord(const Place& place) {
  TROUPE_ASSIGN_OR_RETURN(std::string payload, segments_.at(place.segment).file->Read(place.offset));
  v1::StoredRecord record;
  if (!record.ParseFromString(payload)) return absl::DataLossError("a record of shard " + options_.name + " is no row");
  return record;
}

void RowShard::IndexRow(const v1::Row& row, int64_t payload_bytes, Place place) {
  Entry& entry = entries_[row.row_id()];
  entry.row = place;
  entry.meta = MetaOf(row, options_.name, payload_bytes);
  groups_[row.group_id()][row.sample_index()] = row.row_id();
  ++segments_[place.segment].live;
}

void RowShard::Forget(const std::string& row_id) {
  auto it = entries_.find(row_id);
  if (it == entries_.end()) return;
  --segments_[it->second.row.segment].live;
  for (const auto& [name, place] : it->second.columns) --segments_[place.segment].live;
  auto group = groups_.find(it->second.meta.group_id());
  group->second.erase(it->second.meta.sample_index());
  if (group->second.empty()) groups_.erase(group);
  entries_.erase(it);
}

// Oldest first only: a release that stands in a later segment must not be lost before the row that it releases.
void RowShard::DeleteOldSegments() {
  while (segments_.size() > 1 && segments_.begin()->second.live == 0) {
    if (!RemoveTree(SegmentPath(segments_.begin()->first)).ok()) return;  // tried again at the next release
    segments_.erase(segments_.begin());
  }
}

}  // namespace troupe
