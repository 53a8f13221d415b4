// SPDX-License-Identifier: Apache-2.0
#include "scheduler/store/sqlite_store.h"

#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <future>
#include <random>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "scheduler/store/sqlite_database.h"

namespace troupe::scheduler {
namespace {

// A folder that is removed at the end.
struct Folder {
  Folder() : path(MakeTemporaryDirectory("store-test").value()) {}
  ~Folder() { RemoveTree(path).IgnoreError(); }
  std::string path;
};

v1::Record Numbered(uint64_t number, const std::string& name = "x") {
  v1::Record record;
  record.mutable_job_submitted()->set_order(number);
  record.mutable_job_submitted()->set_job_id(name);
  return record;
}

absl::Status AppendAndWait(RecordStore& store, std::vector<v1::Record> batch) {
  std::promise<absl::Status> done;
  store.Append(std::move(batch), [&](absl::Status status) { done.set_value(status); });
  store.Write(RecordStore::Writer::kStore);
  return done.get_future().get();
}

std::vector<uint64_t> Orders(const RecordStore::Contents& contents) {
  std::vector<uint64_t> orders;
  for (const v1::Record& record : contents.records) orders.push_back(record.job_submitted().order());
  return orders;
}

TEST_CASE("SqliteStore: what was appended is there after it was opened again", "[store]") {
  Folder folder;
  {
    auto store = SqliteStore::Open(folder.path).value();
    CHECK(store->Load().value().records.empty());
    CHECK(AppendAndWait(*store, {Numbered(1), Numbered(2)}).ok());
    store->Append({Numbered(3)}, [](absl::Status) {});
  }
  auto store = SqliteStore::Open(folder.path).value();
  CHECK(Orders(store->Load().value()) == std::vector<uint64_t>{1, 2, 3});
  CHECK(AppendAndWait(*store, {Numbered(4)}).ok());
}

TEST_CASE("SqliteStore: its caller may write, with all that was appended before", "[store]") {
  Folder folder;
  {
    auto store = SqliteStore::Open(folder.path).value();
    REQUIRE(store->Load().ok());
    std::vector<int> done;
    store->Append({Numbered(1)}, [&](const absl::Status& status) { done.push_back(status.ok() ? 1 : -1); });
    store->Append({Numbered(2)}, [&](const absl::Status& status) { done.push_back(status.ok() ? 2 : -2); });
    CHECK(done.empty());
    store->Write(RecordStore::Writer::kCaller);
    CHECK(done == std::vector<int>{1, 2});
  }
  CHECK(Orders(SqliteStore::Open(folder.path).value()->Load().value()) == std::vector<uint64_t>{1, 2});
}

TEST_CASE("SqliteStore: a snapshot takes the place of the records before it", "[store]") {
  Folder folder;
  {
    auto store = SqliteStore::Open(folder.path).value();
    REQUIRE(store->Load().ok());
    store->Append({Numbered(1)}, [](absl::Status) {});
    v1::ClusterSnapshot snapshot;
    snapshot.set_term(7);
    store->Snapshot(snapshot, [](absl::Status) {});
    CHECK(AppendAndWait(*store, {Numbered(2)}).ok());
  }
  RecordStore::Contents contents = SqliteStore::Open(folder.path).value()->Load().value();
  CHECK(contents.snapshot.term() == 7);
  CHECK(Orders(contents) == std::vector<uint64_t>{2});
}

TEST_CASE("SqliteStore: a folder that a live head holds is refused", "[store]") {
  Folder folder;
  auto first = SqliteStore::Open(folder.path).value();
  absl::Status status = SqliteStore::Open(folder.path).status();
  CHECK(status.code() == absl::StatusCode::kAlreadyExists);
  CHECK(std::string(status.message()).find(std::to_string(getpid())) != std::string::npos);
  first.reset();
  CHECK(SqliteStore::Open(folder.path).ok());
}

// Replaces the first `from` in the file.
void Damage(const std::string& path, const std::string& from, const std::string& to) {
  std::string bytes = ReadFile(path, 64 << 20).value();
  size_t at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  std::memcpy(bytes.data() + at, to.data(), to.size());
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("SqliteStore: damage is told, not read over", "[store]") {
  Folder folder;
  std::string path = folder.path + "/head.sqlite3";
  {
    auto store = SqliteStore::Open(folder.path).value();
    REQUIRE(store->Load().ok());
    REQUIRE(AppendAndWait(*store, {Numbered(1, "first-record"), Numbered(2, "second-record")}).ok());
  }
  SECTION("a flipped bit in a record") {
    Damage(path, "second-record", "secood-record");
    absl::Status status = SqliteStore::Open(folder.path).value()->Load().status();
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK(std::string(status.message()).find("record 2 has another checksum") != std::string::npos);
  }
  SECTION("no SQLite file") {
    Damage(path, "SQLite format 3", "something else!");
    CHECK(SqliteStore::Open(folder.path).status().code() == absl::StatusCode::kDataLoss);
  }
  SECTION("a missing record") {
    REQUIRE(SqliteDatabase::Open(path).value()->Execute("DELETE FROM records WHERE sequence = 1").ok());
    CHECK(SqliteStore::Open(folder.path).value()->Load().status().code() == absl::StatusCode::kDataLoss);
  }
  SECTION("a newer version") {
    REQUIRE(SqliteDatabase::Open(path).value()->Execute("PRAGMA user_version=99").ok());
    CHECK(SqliteStore::Open(folder.path).status().code() == absl::StatusCode::kFailedPrecondition);
  }
}

TEST_CASE("SqliteStore: a full disk is a clear error, for every later batch too, and loses nothing", "[store]") {
  Folder folder;
  if (::mount("none", folder.path.c_str(), "tmpfs", 0, "size=512k") != 0) {
    WARN("skipped: no right to mount a small disk");
    return;
  }
  std::vector<uint64_t> durable;
  {
    auto store = SqliteStore::Open(folder.path).value();
    REQUIRE(store->Load().ok());
    absl::Status status;
    for (uint64_t i = 1; status.ok() && i < 1000; ++i) {
      status = AppendAndWait(*store, {Numbered(i, std::string(2000, 'x'))});
      if (status.ok()) durable.push_back(i);
    }
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(AppendAndWait(*store, {Numbered(1000)}).code() == absl::StatusCode::kResourceExhausted);
  }
  CHECK(!durable.empty());
  CHECK(Orders(SqliteStore::Open(folder.path).value()->Load().value()) == durable);
  CHECK(::umount(folder.path.c_str()) == 0);
}

// The child: appends batches of three for ever (with a snapshot now and then), and tells each durable one on the pipe.
[[noreturn]] void AppendUntilKilled(const std::string& folder, int pipe_fd, uint64_t next) {
  auto store = SqliteStore::Open(folder).value();
  if (!store->Load().ok()) _exit(1);
  for (;; next += 3) {
    uint64_t last = next + 2;
    store->Append({Numbered(next), Numbered(next + 1), Numbered(last)}, [pipe_fd, last](absl::Status status) {
      if (!status.ok() || ::write(pipe_fd, &last, sizeof(last)) != sizeof(last)) _exit(2);
    });
    if (next % 60 == 1) {
      v1::ClusterSnapshot snapshot;
      snapshot.set_last_order(last);
      store->Snapshot(snapshot, [](absl::Status) {});
    }
    store->Write(next % 2 == 0 ? RecordStore::Writer::kCaller : RecordStore::Writer::kStore);
    if (next % 30 == 1) PauseFor(absl::Milliseconds(1));
  }
}

TEST_CASE("SqliteStore: kill -9 at any point loses no committed record and keeps batches whole", "[store]") {
  Folder folder;
  std::mt19937 random(11);
  uint64_t next = 1, committed = 0;
  for (int round = 0; round < 25; ++round) {
    int fds[2];
    REQUIRE(::pipe(fds) == 0);
    pid_t child = ::fork();
    if (child == 0) AppendUntilKilled(folder.path, fds[1], next);
    ::close(fds[1]);
    uint64_t told = committed;
    REQUIRE(::read(fds[0], &told, sizeof(told)) == sizeof(told));
    PauseFor(absl::Microseconds(random() % 20'000));
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    while (::read(fds[0], &told, sizeof(told)) == sizeof(told)) {
    }
    ::close(fds[0]);
    RecordStore::Contents contents = SqliteStore::Open(folder.path).value()->Load().value();
    uint64_t last = contents.snapshot.last_order();
    for (uint64_t order : Orders(contents)) REQUIRE(order == ++last);
    REQUIRE(last >= told);
    REQUIRE(last % 3 == 0);
    committed = last;
    next = last + 1;
  }
  CHECK(committed > 100);
}

}  // namespace
}  // namespace troupe::scheduler
