// SPDX-License-Identifier: Apache-2.0
// RowIndex: what the controller knows of the experience stream: which groups and rows exist, which columns they have,
// who holds a lease, what was trained. A state machine without IO, clock or threads; payload never comes here.
//
//   open -> generated (columns are added under leases) -> ready -> leased(step) -> trained(step) -> durable: forgotten
//
// Groups are trained whole and strictly in the order of their sequence numbers, so which groups a step trains depends
// on the data alone, never on timing. A dropped group leaves the queue and its place is refilled by the next sequence.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "troupe/v1/experience.pb.h"

namespace troupe {

struct RowIndexOptions {
  int64_t groups_per_batch = 1;      // train_batch_size
  int64_t rows_per_group_min = 2;    // a group with fewer rows is dropped (1 where rollout.n is 1)
  int64_t max_staleness = 0;         // steps
  int64_t total_steps = 0;           // no more groups are opened than these steps train; 0: no end
  std::vector<std::string> columns;  // what a row needs before it is ready: "reward", "ref_logprobs"
};

// One consumer: a scorer's role, replica and incarnation. Its leases end when it does, and never by time.
struct RowConsumer {
  std::string name;  // "reward/0"
  uint64_t incarnation = 0;
  friend auto operator<=>(const RowConsumer&, const RowConsumer&) = default;
};

// A queued group and its place in the order of all that are trained: 0-based, dropped groups not counted.
struct PlacedGroup {
  uint64_t sequence = 0;
  int64_t position = 0;
};

// Not thread-safe. Calls marked [durable] are the ones that a log replays; leases of scorers are soft.
// FAILED_PRECONDITION or NOT_FOUND name the group or row; nothing is changed then.
class RowIndex {
 public:
  explicit RowIndex(RowIndexOptions options);

  // ---- Credits ----
  // How many groups may be opened now for a producer whose weights are of `version` (steps):
  //   (max_staleness + version + 1) * groups_per_batch - (trained or leased + queued), at least 0.
  // Counted in whole groups: a sample that is dropped from a group that goes on keeps its place, so that a batch never
  // takes a group more than groups_per_batch; samples of a dropped group leave. Source: AReaL (Fu et al. 2025), eq. 3.
  int64_t Capacity(int64_t version) const;
  // Whether the group at that place in the order may be generated with weights of `version`.
  bool MayGenerate(int64_t position, int64_t version) const;
  uint64_t next_sequence() const { return next_sequence_; }
  int64_t next_position() const { return FirstPosition() + queued_groups(); }

  // ---- Producers [durable] ----
  absl::Status OpenGroup(uint64_t sequence, std::string group_id);  // sequence == next_sequence()
  // ALREADY_EXISTS when the group was generated already (a late answer).
  absl::Status AddRows(uint64_t sequence, std::vector<v1::RowMeta> rows);

  // ---- Scorers ----
  // Rows without `column` that nobody holds, oldest first, at most `rows_max`, of these shards.
  std::vector<v1::RowMeta> Lease(const RowConsumer& consumer, std::string_view column, size_t rows_max,
                                 const std::set<std::string>& usable_shards);
  // Rows that wait for `column` and that nobody holds.
  size_t Waiting(std::string_view column) const;
  // Gives back what this consumer holds.
  void EndConsumer(const RowConsumer& consumer);
  // Whether the consumer holds this row: a late answer of an ended lease is refused by this.
  bool Holds(const RowConsumer& consumer, std::string_view column, const std::string& row_id) const;
  // `metrics`: what the scorer of column "reward" told beside the value. [durable]
  absl::Status AddColumn(const std::string& row_id, std::string_view column, double value,
                         const google::protobuf::Map<std::string, double>& metrics = {});

  // ---- Dropping [durable] ----
  // Both return the ids of the rows that were forgotten; DropRow drops the group too when it falls below the least
  // size.
  absl::StatusOr<std::vector<std::string>> DropRow(const std::string& row_id);
  absl::StatusOr<std::vector<std::string>> DropGroup(uint64_t sequence);

  // ---- The trainer ----
  // The next batch, when its groups are ready; nothing else. Groups too stale for training at `version` make it empty
  // and are listed in `stale` (they are to be dropped first).
  std::optional<std::vector<uint64_t>> NextBatch(int64_t version, bool train_stale, std::vector<uint64_t>* stale) const;
  absl::Status LeaseBatch(int64_t step, const std::vector<uint64_t>& sequences);  // [durable]
  absl::Status MarkTrained(int64_t step);                                         // [durable]
  // Steps up to `step` are in a checkpoint: forgets their groups and returns the ids of their rows.
  std::vector<std::string> MarkDurable(int64_t step);  // [durable]
  // The recorded batch of a step that is leased or trained; nullptr when there is none (any more).
  const v1::IndexedBatch* BatchOf(int64_t step) const;
  int64_t leased_steps() const { return leased_steps_; }

  // ---- Reading ----
  bool IsQueued(uint64_t sequence) const { return queue_.contains(sequence); }
  bool IsOpen(uint64_t sequence) const;  // queued, and its rows are not there yet
  bool HasRow(const std::string& row_id) const { return rows_.contains(row_id); }
  const std::string& GroupIdOf(uint64_t sequence) const;  // of a queued group
  std::vector<PlacedGroup> OpenGroups() const;            // by sequence
  std::vector<v1::RowMeta> QueuedRows() const;
  int64_t queued_groups() const { return static_cast<int64_t>(queue_.size()); }

  v1::IndexSnapshot Snapshot() const;
  static absl::StatusOr<RowIndex> Restore(RowIndexOptions options, const v1::IndexSnapshot& snapshot);

 private:
  struct Group {
    std::string group_id;
    bool generated = false;
    std::map<int32_t, v1::IndexedRow> rows;  // by sample_index
  };
  struct RowPlace {
    uint64_t sequence = 0;
    int32_t sample_index = 0;
  };
  using Missing = std::map<std::pair<uint64_t, int32_t>, std::string>;  // rows without a column, oldest first: row_id

  int64_t FirstPosition() const { return leased_steps_ * options_.groups_per_batch; }  // of the queue
  bool Ready(const Group& group) const;
  int64_t StalenessOf(const Group& group, int64_t version) const;
  v1::IndexedRow* FindRow(const std::string& row_id);
  void IndexRow(uint64_t sequence, const v1::IndexedRow& row);
  void Forget(uint64_t sequence, const v1::IndexedRow& row);

  RowIndexOptions options_;
  uint64_t next_sequence_ = 0;
  int64_t leased_steps_ = 0;
  std::map<uint64_t, Group> queue_;                      // open, generated or ready
  std::map<int64_t, v1::IndexedBatch> batches_;          // leased or trained, by step
  absl::flat_hash_map<std::string, RowPlace> rows_;      // of the queue
  std::map<std::string, Missing, std::less<>> missing_;  // per column, nobody holds these
  std::map<std::string, absl::flat_hash_map<std::string, RowConsumer>, std::less<>> leases_;  // per column, by row_id
};

}  // namespace troupe
