// SPDX-License-Identifier: Apache-2.0
// RecordStore: where the scheduler's decisions become durable, and from where a head recovers.
//
// One head holds a store. Batches become durable in the order in which they were appended; each as a whole or not at
// all. After a batch has failed no later one is tried (its records might rest on the lost ones): every later `done`
// gets the same error, and the head ends. Nothing that `done` reported durable is ever lost, whenever the process dies.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "troupe/v1/store.pb.h"

namespace troupe::scheduler {

class RecordStore {
 public:
  struct Contents {
    v1::ClusterSnapshot snapshot;     // Empty when none was taken.
    std::vector<v1::Record> records;  // After the snapshot, in order.
  };
  using Done = std::function<void(absl::Status)>;

  virtual ~RecordStore() = default;

  // Once, before the first Append. DATA_LOSS: what is there is damaged; the message says what and what to do.
  virtual absl::StatusOr<Contents> Load() = 0;

  // Queues a batch for the next Write. `done` is called once, on the thread that writes, in order; RESOURCE_EXHAUSTED:
  // no space left. An empty batch is allowed: its `done` waits for those before it.
  virtual void Append(std::vector<v1::Record> batch, Done done) = 0;

  // Has what was appended written, as few commits as can be. kStore: by a thread of the store's; returns at once.
  // kCaller: before it returns, which saves the way to another thread and back; as kStore when one is writing already.
  enum class Writer { kStore, kCaller };
  virtual void Write(Writer writer) = 0;

  // Takes the place of every record appended so far. Ordered with the appends; a failure is one of a batch.
  virtual void Snapshot(v1::ClusterSnapshot snapshot, Done done) = 0;
};

}  // namespace troupe::scheduler
