// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/row_index.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace troupe {
namespace {

absl::Status Precondition(std::string_view what, std::string_view id, std::string_view why) {
  return absl::FailedPreconditionError(std::string(what) + " '" + std::string(id) + "' " + std::string(why));
}

bool HasColumn(const v1::IndexedRow& row, std::string_view column) {
  return std::find(row.columns().begin(), row.columns().end(), column) != row.columns().end();
}

v1::IndexedGroup ToProto(uint64_t sequence, const std::string& group_id, bool generated,
                         const std::map<int32_t, v1::IndexedRow>& rows) {
  v1::IndexedGroup proto;
  proto.set_sequence(sequence);
  proto.set_group_id(group_id);
  proto.set_generated(generated);
  for (const auto& [index, row] : rows) *proto.add_rows() = row;
  return proto;
}

}  // namespace

RowIndex::RowIndex(RowIndexOptions options) : options_(std::move(options)) {
  TROUPE_CHECK(options_.groups_per_batch > 0 && options_.max_staleness >= 0, "sizes of the index");
  for (const std::string& column : options_.columns) {
    missing_[column];
    leases_[column];
  }
}

int64_t RowIndex::Capacity(int64_t version) const {
  int64_t steps = options_.max_staleness + version + 1;
  if (options_.total_steps > 0) steps = std::min(steps, options_.total_steps);
  return std::max<int64_t>(0, steps * options_.groups_per_batch - next_position());
}

bool RowIndex::MayGenerate(int64_t position, int64_t version) const {
  return position < (options_.max_staleness + version + 1) * options_.groups_per_batch;
}

absl::Status RowIndex::OpenGroup(uint64_t sequence, std::string group_id) {
  if (sequence != next_sequence_) return Precondition("group", group_id, "is not the next in the order");
  queue_[sequence].group_id = std::move(group_id);
  ++next_sequence_;
  return absl::OkStatus();
}

absl::Status RowIndex::AddRows(uint64_t sequence, std::vector<v1::RowMeta> rows) {
  auto it = queue_.find(sequence);
  if (it == queue_.end()) return absl::NotFoundError("group " + std::to_string(sequence) + " is not in the queue");
  Group& group = it->second;
  if (group.generated) return absl::AlreadyExistsError("group '" + group.group_id + "' has its rows already");
  if (static_cast<int64_t>(rows.size()) < options_.rows_per_group_min) {
    return Precondition("group", group.group_id, "has too few rows");
  }
  std::set<int32_t> indices;
  for (const v1::RowMeta& row : rows) {
    if (row.group_id() != group.group_id) return Precondition("row", row.row_id(), "names another group");
    if (rows_.contains(row.row_id()) || !indices.insert(row.sample_index()).second) {
      return Precondition("row", row.row_id(), "is there twice");
    }
  }
  group.generated = true;
  for (v1::RowMeta& meta : rows) {
    v1::IndexedRow& row = group.rows[meta.sample_index()];
    *row.mutable_meta() = std::move(meta);
    IndexRow(sequence, row);
  }
  return absl::OkStatus();
}

std::vector<v1::RowMeta> RowIndex::Lease(const RowConsumer& consumer, std::string_view column, size_t rows_max,
                                         const std::set<std::string>& usable_shards) {
  std::vector<v1::RowMeta> rows;
  auto missing = missing_.find(column);
  TROUPE_CHECK(missing != missing_.end(), "a column that the index was made with");
  auto& leases = leases_.find(column)->second;
  for (auto it = missing->second.begin(); it != missing->second.end() && rows.size() < rows_max;) {
    const v1::IndexedRow& row = *FindRow(it->second);
    if (!usable_shards.contains(row.meta().shard())) {
      ++it;
      continue;
    }
    rows.push_back(row.meta());
    leases[it->second] = consumer;
    it = missing->second.erase(it);
  }
  return rows;
}

size_t RowIndex::Waiting(std::string_view column) const {
  auto missing = missing_.find(column);
  return missing == missing_.end() ? 0 : missing->second.size();
}

void RowIndex::EndConsumer(const RowConsumer& consumer) {
  for (auto& [column, leases] : leases_) {
    for (auto it = leases.begin(); it != leases.end();) {
      if (it->second != consumer) {
        ++it;
        continue;
      }
      const RowPlace& place = rows_.at(it->first);
      missing_[column][{place.sequence, place.sample_index}] = it->first;
      leases.erase(it++);
    }
  }
}

bool RowIndex::Holds(const RowConsumer& consumer, std::string_view column, const std::string& row_id) const {
  auto leases = leases_.find(column);
  if (leases == leases_.end()) return false;
  auto it = leases->second.find(row_id);
  return it != leases->second.end() && it->second == consumer;
}

absl::Status RowIndex::AddColumn(const std::string& row_id, std::string_view column, double value,
                                 const google::protobuf::Map<std::string, double>& metrics) {
  auto missing = missing_.find(column);
  if (missing == missing_.end())
    return absl::InvalidArgumentError("no scorer adds column '" + std::string(column) + "'");
  v1::IndexedRow* row = FindRow(row_id);
  if (row == nullptr) return absl::NotFoundError("row '" + std::string(row_id) + "' is not in the queue");
  if (HasColumn(*row, column)) return Precondition("row", row_id, "has column " + std::string(column) + " already");
  row->add_columns(std::string(column));
  if (column == "reward") {
    row->set_reward(value);
    *row->mutable_reward_metrics() = metrics;
  }
  const RowPlace& place = rows_.at(row_id);
  missing->second.erase({place.sequence, place.sample_index});
  leases_.find(column)->second.erase(row_id);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RowIndex::DropRow(const std::string& row_id) {
  auto it = rows_.find(row_id);
  if (it == rows_.end()) return absl::NotFoundError("row '" + std::string(row_id) + "' is not in the queue");
  RowPlace place = it->second;
  Group& group = queue_.at(place.sequence);
  if (static_cast<int64_t>(group.rows.size()) <= options_.rows_per_group_min) return DropGroup(place.sequence);
  auto row = group.rows.find(place.sample_index);
  std::vector<std::string> forgotten = {row->second.meta().row_id()};
  Forget(place.sequence, row->second);
  group.rows.erase(row);
  return forgotten;
}

absl::StatusOr<std::vector<std::string>> RowIndex::DropGroup(uint64_t sequence) {
  auto it = queue_.find(sequence);
  if (it == queue_.end()) return absl::NotFoundError("group " + std::to_string(sequence) + " is not in the queue");
  std::vector<std::string> forgotten;
  for (const auto& [index, row] : it->second.rows) {
    forgotten.push_back(row.meta().row_id());
    Forget(sequence, row);
  }
  queue_.erase(it);
  return forgotten;
}

std::optional<std::vector<uint64_t>> RowIndex::NextBatch(int64_t version, bool train_stale,
                                                         std::vector<uint64_t>* stale) const {
  std::vector<uint64_t> batch;
  stale->clear();
  for (auto it = queue_.begin(); it != queue_.end() && std::ssize(batch) < options_.groups_per_batch; ++it) {
    const auto& [sequence, group] = *it;
    if (group.generated && !train_stale && StalenessOf(group, version) > options_.max_staleness) {
      stale->push_back(sequence);
    } else if (Ready(group)) {
      batch.push_back(sequence);
    } else {
      return std::nullopt;
    }
  }
  if (!stale->empty() || std::ssize(batch) < options_.groups_per_batch) return std::nullopt;
  return batch;
}

absl::Status RowIndex::LeaseBatch(int64_t step, const std::vector<uint64_t>& sequences) {
  if (step != leased_steps_ + 1) return Precondition("batch", std::to_string(step), "is not the next");
  for (uint64_t sequence : sequences) {
    auto it = queue_.find(sequence);
    if (it == queue_.end() || !Ready(it->second)) {
      return Precondition("group", std::to_string(sequence), "is not ready and cannot be leased");
    }
  }
  v1::IndexedBatch& batch = batches_[step];
  batch.set_step(step);
  for (uint64_t sequence : sequences) {
    Group& group = queue_.at(sequence);
    *batch.add_groups() = ToProto(sequence, group.group_id, true, group.rows);
    for (const auto& [index, row] : group.rows) rows_.erase(row.meta().row_id());
    queue_.erase(sequence);
  }
  ++leased_steps_;
  return absl::OkStatus();
}

absl::Status RowIndex::MarkTrained(int64_t step) {
  auto it = batches_.find(step);
  if (it == batches_.end()) return absl::NotFoundError("no batch of step " + std::to_string(step) + " is leased");
  it->second.set_trained(true);
  return absl::OkStatus();
}

std::vector<std::string> RowIndex::MarkDurable(int64_t step) {
  std::vector<std::string> forgotten;
  while (!batches_.empty() && batches_.begin()->first <= step) {
    TROUPE_CHECK(batches_.begin()->second.trained(), "ROW-1: only trained rows become durable");
    for (const v1::IndexedGroup& group : batches_.begin()->second.groups()) {
      for (const v1::IndexedRow& row : group.rows()) forgotten.push_back(row.meta().row_id());
    }
    batches_.erase(batches_.begin());
  }
  return forgotten;
}

const v1::IndexedBatch* RowIndex::BatchOf(int64_t step) const {
  auto it = batches_.find(step);
  return it == batches_.end() ? nullptr : &it->second;
}

bool RowIndex::IsOpen(uint64_t sequence) const {
  auto it = queue_.find(sequence);
  return it != queue_.end() && !it->second.generated;
}

const std::string& RowIndex::GroupIdOf(uint64_t sequence) const { return queue_.at(sequence).group_id; }

std::vector<PlacedGroup> RowIndex::OpenGroups() const {
  std::vector<PlacedGroup> open;
  int64_t position = FirstPosition();
  for (const auto& [sequence, group] : queue_) {
    if (!group.generated) open.push_back({sequence, position});
    ++position;
  }
  return open;
}

std::vector<v1::RowMeta> RowIndex::QueuedRows() const {
  std::vector<v1::RowMeta> rows;
  for (const auto& [sequence, group] : queue_) {
    for (const auto& [index, row] : group.rows) rows.push_back(row.meta());
  }
  return rows;
}

v1::IndexSnapshot RowIndex::Snapshot() const {
  v1::IndexSnapshot snapshot;
  snapshot.set_next_sequence(next_sequence_);
  snapshot.set_leased_steps(leased_steps_);
  for (const auto& [sequence, group] : queue_) {
    *snapshot.add_queue() = ToProto(sequence, group.group_id, group.generated, group.rows);
  }
  for (const auto& [step, batch] : batches_) *snapshot.add_batches() = batch;
  return snapshot;
}

absl::StatusOr<RowIndex> RowIndex::Restore(RowIndexOptions options, const v1::IndexSnapshot& snapshot) {
  RowIndex index(std::move(options));
  index.next_sequence_ = snapshot.next_sequence();
  index.leased_steps_ = snapshot.leased_steps();
  for (const v1::IndexedGroup& saved : snapshot.queue()) {
    if (saved.sequence() >= index.next_sequence_ || index.queue_.contains(saved.sequence())) {
      return absl::DataLossError("the index names group '" + saved.group_id() + "' out of order");
    }
    Group& group = index.queue_[saved.sequence()];
    group.group_id = saved.group_id();
    group.generated = saved.generated();
    for (const v1::IndexedRow& row : saved.rows()) {
      group.rows[row.meta().sample_index()] = row;
      index.IndexRow(saved.sequence(), row);
    }
  }
  for (const v1::IndexedBatch& batch : snapshot.batches()) index.batches_[batch.step()] = batch;
  return index;
}

bool RowIndex::Ready(const Group& group) const {
  if (!group.generated) return false;
  for (const auto& [index, row] : group.rows) {
    for (const std::string& column : options_.columns) {
      if (!HasColumn(row, column)) return false;
    }
  }
  return true;
}

int64_t RowIndex::StalenessOf(const Group& group, int64_t version) const {
  int64_t oldest = version;
  for (const auto& [index, row] : group.rows) {
    for (const v1::VersionSpan& span : row.meta().spans()) oldest = std::min(oldest, span.version().step());
  }
  return version - oldest;
}

v1::IndexedRow* RowIndex::FindRow(const std::string& row_id) {
  auto it = rows_.find(row_id);
  if (it == rows_.end()) return nullptr;
  return &queue_.at(it->second.sequence).rows.at(it->second.sample_index);
}

void RowIndex::IndexRow(uint64_t sequence, const v1::IndexedRow& row) {
  rows_[row.meta().row_id()] = {sequence, row.meta().sample_index()};
  for (auto& [column, rows] : missing_) {
    if (!HasColumn(row, column)) rows[{sequence, row.meta().sample_index()}] = row.meta().row_id();
  }
}

void RowIndex::Forget(uint64_t sequence, const v1::IndexedRow& row) {
  for (auto& [column, rows] : missing_) rows.erase({sequence, row.meta().sample_index()});
  for (auto& [column, leases] : leases_) leases.erase(row.meta().row_id());
  rows_.erase(row.meta().row_id());
}

}  // namespace troupe
