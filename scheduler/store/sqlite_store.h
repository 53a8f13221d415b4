// SPDX-License-Identifier: Apache-2.0
// SqliteStore: the store of one head on this machine, `<data_dir>/head.sqlite3` (WAL, synchronous=FULL). One writer
// thread; batches that wait are committed together. Each record carries a checksum, since SQLite has none.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/store/record_store.h"

namespace troupe::scheduler {

// Batches in one commit: enough that the disk is never the limit, few enough that one commit stays short.
inline constexpr size_t kBatchesPerCommitMax = 1024;

class SqliteStore {
 public:
  // Makes the folder (0700) and the file when needed, and holds them until it is destroyed.
  // ALREADY_EXISTS: another live head holds it (the message names the process). FAILED_PRECONDITION: written by a newer
  // version. DATA_LOSS: no SQLite file, or damaged. RESOURCE_EXHAUSTED, PERMISSION_DENIED: as the disk says.
  // The destructor makes durable what was appended before it.
  static absl::StatusOr<std::unique_ptr<RecordStore>> Open(const std::string& data_dir);
};

}  // namespace troupe::scheduler
