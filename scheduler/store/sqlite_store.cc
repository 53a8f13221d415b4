// SPDX-License-Identifier: Apache-2.0
#include "scheduler/store/sqlite_store.h"

#include <zlib.h>

#include <deque>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "runtime/env/file_lock.h"
#include "scheduler/store/sqlite_database.h"

namespace troupe::scheduler {
namespace {

constexpr int kSchemaVersion = 1;
constexpr int kApplicationId = 0x54525545;  // "TRUE"mpe: tells a file of ours from another SQLite file.

constexpr char kSchema[] =
    "CREATE TABLE IF NOT EXISTS records(sequence INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS snapshot(through INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, data BLOB NOT NULL);";

int64_t Checksum(std::string_view data) {
  return static_cast<int64_t>(crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what,
                                          ": the store is damaged. Move it away to start with an empty one, or put a "
                                          "copy back"));
}

template <typename Message>
absl::Status ParseChecked(const std::string& path, const std::string& what, int64_t checksum, std::string_view data,
                          Message& message) {
  if (Checksum(data) != checksum) return Damaged(path, what + " has another checksum");
  if (!message.ParseFromArray(data.data(), static_cast<int>(data.size()))) return Damaged(path, what + " is no record");
  return absl::OkStatus();
}

// Brings an empty file to the schema, and refuses one that is not of this version.
absl::Status PrepareSchema(SqliteDatabase& database, const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(std::string mode, database.QueryText("PRAGMA journal_mode=WAL"));
  if (mode != "wal") return absl::UnavailableError(absl::StrCat(path, ": its file system allows no WAL (", mode, ")"));
  TROUPE_RETURN_IF_ERROR(database.Execute("PRAGMA synchronous=FULL"));
  TROUPE_ASSIGN_OR_RETURN(std::string check, database.QueryText("PRAGMA quick_check(1)"));
  if (check != "ok") return Damaged(path, check);
  TROUPE_ASSIGN_OR_RETURN(std::string version, database.QueryText("PRAGMA user_version"));
  if (version == "0") {
    TROUPE_ASSIGN_OR_RETURN(std::string tables, database.QueryText("SELECT count(*) FROM sqlite_master"));
    if (tables != "0") return Damaged(path, "it is a SQLite file of something else");
    return database.Execute(absl::StrCat("BEGIN;", kSchema, "PRAGMA application_id=", kApplicationId,
                                         ";PRAGMA user_version=", kSchemaVersion, ";COMMIT;"));
  }
  TROUPE_ASSIGN_OR_RETURN(std::string application, database.QueryText("PRAGMA application_id"));
  if (application != std::to_string(kApplicationId)) return Damaged(path, "it is a SQLite file of something else");
  if (version != std::to_string(kSchemaVersion)) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": written by another version of Troupe (schema ", version,
                                                      "; this one reads ", kSchemaVersion, ")"));
  }
  return absl::OkStatus();
}

class Store final : public RecordStore {
 public:
  Store(FileLock lock, std::unique_ptr<SqliteDatabase> database, std::string path)
      : lock_(std::move(lock)), database_(std::move(database)), path_(std::move(path)) {}

  ~Store() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      work_.NotifyAll();
    }
    if (writer_.joinable()) writer_.join();
  }

  absl::StatusOr<Contents> Load() override {
    Contents contents;
    int64_t through = 0;
    TROUPE_RETURN_IF_ERROR(database_->Query(
        "SELECT through, checksum, data FROM snapshot", [&](int64_t at, int64_t checksum, std::string_view data) {
          through = at;
          return ParseChecked(path_, "the snapshot", checksum, data, contents.snapshot);
        }));
    last_sequence_ = through;
    TROUPE_RETURN_IF_ERROR(database_->Query("SELECT sequence, checksum, data FROM records ORDER BY sequence",
                                            [&](int64_t sequence, int64_t checksum, std::string_view data) {
                                              if (sequence <= through) return absl::OkStatus();
                                              if (sequence != last_sequence_ + 1)
                                                return Damaged(
                                                    path_, absl::StrCat("record ", last_sequence_ + 1, " is missing"));
                                              last_sequence_ = sequence;
                                              return ParseChecked(path_, absl::StrCat("record ", sequence), checksum,
                                                                  data, contents.records.emplace_back());
                                            }));
    writer_ = std::thread([this] { WriteUntilClosed(); });
    return contents;
  }

  void Append(std::vector<v1::Record> batch, Done done) override {
    Queue({std::move(batch), std::nullopt, std::move(done)});
  }
  void Snapshot(v1::ClusterSnapshot snapshot, Done done) override { Queue({{}, std::move(snapshot), std::move(done)}); }

  void Write(Writer writer) override {
    bool here = false;
    {
      MutexLock lock(mutex_);
      if (queue_.empty()) return;
      wanted_ = true;
      here = writer == Writer::kCaller && !writing_;
      writing_ = writing_ || here;
    }
    if (!here) return work_.NotifyAll();
    WriteQueued();
    MutexLock lock(mutex_);
    writing_ = false;
    if (wanted_ || closing_) work_.NotifyAll();
  }

 private:
  struct Work {
    std::vector<v1::Record> records;
    std::optional<v1::ClusterSnapshot> snapshot;
    Done done;
  };

  void Queue(Work work) {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
  }

  void WriteUntilClosed() {
    for (;;) {
      {
        MutexLock lock(mutex_);
        work_.WaitUntil(lock, Monotonic::Infinite(),
                        [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !writing_ && (closing_ || wanted_); });
        if (queue_.empty() && closing_) return;
        writing_ = true;
      }
      WriteQueued();
      MutexLock lock(mutex_);
      writing_ = false;
    }
  }

  // Requires: the calling thread has set writing_.
  void WriteQueued() {
    std::vector<Work> batch;
    {
      MutexLock lock(mutex_);
      while (!queue_.empty() && batch.size() < kBatchesPerCommitMax) {
        batch.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      if (queue_.empty()) wanted_ = false;
    }
    if (failed_.ok()) failed_ = Commit(batch);
    for (Work& work : batch) work.done(failed_);
  }

  absl::Status Commit(const std::vector<Work>& batch) {
    bool nothing = true;
    for (const Work& work : batch) nothing = nothing && work.records.empty() && !work.snapshot;
    if (nothing) return absl::OkStatus();
    TROUPE_RETURN_IF_ERROR(database_->Run("BEGIN IMMEDIATE"));
    absl::Status status = Insert(batch);
    if (status.ok()) status = database_->Run("COMMIT");
    if (!status.ok()) database_->Execute("ROLLBACK").IgnoreError();
    return status;
  }

  absl::Status Insert(const std::vector<Work>& batch) {
    std::string data;
    for (const Work& work : batch) {
      for (const v1::Record& record : work.records) {
        record.SerializeToString(&data);
        TROUPE_RETURN_IF_ERROR(
            database_->Run("INSERT INTO records VALUES(?1, ?2, ?3)", ++last_sequence_, Checksum(data), data));
      }
      if (!work.snapshot) continue;
      work.snapshot->SerializeToString(&data);
      TROUPE_RETURN_IF_ERROR(database_->Execute("DELETE FROM snapshot"));
      TROUPE_RETURN_IF_ERROR(
          database_->Run("INSERT INTO snapshot VALUES(?1, ?2, ?3)", last_sequence_, Checksum(data), data));
      TROUPE_RETURN_IF_ERROR(database_->Run("DELETE FROM records WHERE sequence <= ?1", last_sequence_));
    }
    return absl::OkStatus();
  }

  FileLock lock_;
  std::unique_ptr<SqliteDatabase> database_;
  const std::string path_;
  // Of the thread that writes.
  int64_t last_sequence_ = 0;
  absl::Status failed_;

  Mutex mutex_;
  ConditionVariable work_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;    // Some thread is.
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;     // Write was called for what is queued.
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);  // Bounded by the head: it runs a limited number of steps ahead.
  std::thread writer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordStore>> SqliteStore::Open(const std::string& data_dir) {
  TROUPE_RETURN_IF_ERROR(MakeDirs(data_dir, 0700));
  TROUPE_ASSIGN_OR_RETURN(FileLock lock, FileLock::Acquire(data_dir + "/head.lock", "another head"));
  std::string path = data_dir + "/head.sqlite3";
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, SqliteDatabase::Open(path));
  TROUPE_RETURN_IF_ERROR(PrepareSchema(*database, path));
  return std::make_unique<Store>(std::move(lock), std::move(database), path);
}

}  // namespace troupe::scheduler
