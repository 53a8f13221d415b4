// SPDX-License-Identifier: Apache-2.0
// MemoryStore: the store of the simulation. What is durable outlives the head that wrote it; the simulation says when a
// batch becomes durable, fails, or is lost with the head. Not thread-safe; `done` is called inside CommitNext.
#pragma once

#include <deque>
#include <utility>

#include "scheduler/store/record_store.h"

namespace troupe::scheduler {

// The disk: shared by the stores of successive heads.
struct MemoryDisk {
  v1::ClusterSnapshot snapshot;
  std::vector<v1::Record> records;
};

class MemoryStore final : public RecordStore {
 public:
  // `disk` outlives the store.
  explicit MemoryStore(MemoryDisk* disk) : disk_(disk) {}

  absl::StatusOr<Contents> Load() override { return Contents{disk_->snapshot, disk_->records}; }
  void Append(std::vector<v1::Record> batch, Done done) override {
    queue_.push_back({std::move(batch), std::nullopt, std::move(done)});
  }
  void Write(Writer) override {}  // The simulation says when: CommitNext.
  void Snapshot(v1::ClusterSnapshot snapshot, Done done) override {
    queue_.push_back({{}, std::move(snapshot), std::move(done)});
  }

  bool idle() const { return queue_.empty(); }

  // The oldest batch becomes durable, or fails with all that come after it. Requires: !idle().
  void CommitNext() {
    Work work = std::move(queue_.front());
    queue_.pop_front();
    if (failed_.ok()) {
      disk_->records.insert(disk_->records.end(), work.records.begin(), work.records.end());
      if (work.snapshot) {
        disk_->snapshot = *std::move(work.snapshot);
        disk_->records.clear();
      }
    }
    work.done(failed_);
  }
  // The oldest batch becomes durable, but the head ends before it learns of it.
  void CommitNextAndCrash() {
    queue_.front().done = [](absl::Status) {};
    CommitNext();
    queue_.clear();
  }
  void Fail(absl::Status status) { failed_ = std::move(status); }

 private:
  struct Work {
    std::vector<v1::Record> records;
    std::optional<v1::ClusterSnapshot> snapshot;
    Done done;
  };
  MemoryDisk* const disk_;
  std::deque<Work> queue_;
  absl::Status failed_;
};

}  // namespace troupe::scheduler
