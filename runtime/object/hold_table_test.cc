// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/hold_table.h"

#include <catch2/catch.hpp>
#include <random>

#include "runtime/object/block_pool.h"

namespace troupe {
namespace {

constexpr ObjectProcess kOwner = 11, kReader = 12, kOther = 13;

struct Fixture {
  ObjectBudget budget{1 << 20};
  HoldTable table{budget};
  Fixture() {
    table.Open(kOwner, "job/owner/0#1", {{JobId("job"), "owner", 0}, 1});
    table.Open(kReader, "job/reader/0#1", {});
    table.Open(kOther, "job/other/0#1", {});
    CHECK(table.AddFile(kOwner, kOwner, 1, UniqueFd(), 4096).ok());
  }
  ObjectId Export(uint64_t sequence) {
    ObjectId id{kOwner, sequence};
    CHECK(table.Export(kOwner, id, {kOwner, 1, 0, 0, 100}).ok());
    return id;
  }
  std::map<ObjectProcess, std::vector<uint64_t>> Sweep() { return table.Sweep(table.TakeUnheld()); }
};

TEST_CASE("HoldTable: a block is free when nobody holds its object, and its owner is told once", "[object]") {
  Fixture f;
  ObjectId id = f.Export(7);
  CHECK(f.table.Hold(kReader, id).value() == ObjectPlace{kOwner, 1, 0, 0, 100});
  f.table.Release(kOwner, id);
  CHECK(f.Sweep().empty());
  f.table.Release(kReader, id);
  f.table.Release(kReader, id);
  CHECK(f.Sweep() == std::map<ObjectProcess, std::vector<uint64_t>>{{kOwner, {7}}});
  CHECK(f.Sweep().empty());
  absl::Status gone = f.table.Hold(kReader, id).status();
  CHECK(gone.code() == absl::StatusCode::kNotFound);
  CHECK(std::string(gone.message()).find("job/owner/0#1 is gone: everybody let it go") != std::string::npos);
}

TEST_CASE("HoldTable: who asks before the sweep keeps the object", "[object]") {
  Fixture f;
  ObjectId id = f.Export(1);
  f.table.Release(kOwner, id);
  std::vector<ObjectId> candidates = f.table.TakeUnheld();
  REQUIRE(f.table.Hold(kReader, id).ok());
  CHECK(f.table.Sweep(candidates).empty());
  CHECK(f.table.objects() == 1);
}

TEST_CASE("HoldTable: an object of another node is held from its ref on, and has one life under two names",
          "[object]") {
  Fixture f;
  const ObjectId far{99, 3};
  CHECK(f.table.Hold(kReader, far).status().code() == absl::StatusCode::kNotFound);
  CHECK(f.table.HoldElsewhere(kReader, far).value());
  CHECK_FALSE(f.table.HoldElsewhere(kOther, far).value());
  CHECK(f.table.IsElsewhere(far));
  f.table.Release(kOther, far);
  CHECK(f.Sweep().empty());
  // The owner fetches it, and lets go of its copy.
  ObjectId copy = f.Export(5);
  CHECK(f.table.Arrived({99, 4}, copy).code() == absl::StatusCode::kNotFound);
  REQUIRE(f.table.Arrived(far, copy).ok());
  CHECK(f.table.Arrived(far, copy).code() == absl::StatusCode::kNotFound);
  CHECK_FALSE(f.table.IsElsewhere(far));
  f.table.Release(kOwner, copy);
  CHECK(f.Sweep().empty());
  CHECK(f.table.Hold(kOther, far).value() == ObjectPlace{kOwner, 1, 0, 0, 100});
  // Its holders are asked under the name that they know.
  CHECK(f.table.Withdraw(kOwner, copy).value() == std::vector<ObjectProcess>{kReader, kOther});
  CHECK(f.table.Outside(copy) == far);
  CHECK(f.table.Here(far) == copy);
  f.table.Agree(kReader, far, true);
  f.table.Agree(kOther, far, true);
  f.table.FinishWithdrawals(f.table.TakeAgreed());
  CHECK(f.table.IsAway(far));
  f.Export(5);
  CHECK_FALSE(f.table.IsAway(far));
  f.table.Release(kOwner, copy);
  f.table.Close(kOther);
  CHECK(f.Sweep().empty());
  CHECK(f.table.TakeForgotten().empty());
  f.table.Release(kReader, far);
  CHECK(f.Sweep() == std::map<ObjectProcess, std::vector<uint64_t>>{{kOwner, {5}}});
  CHECK(f.table.TakeForgotten() == std::vector<ObjectId>{far});
  CHECK(f.table.objects() == 0);
}

TEST_CASE("HoldTable: an object of another node that nobody fetched is forgotten, too", "[object]") {
  Fixture f;
  const ObjectId far{99, 3};
  REQUIRE(f.table.HoldElsewhere(kReader, far).ok());
  f.table.Close(kReader);
  CHECK(f.Sweep().empty());
  CHECK(f.table.TakeForgotten() == std::vector<ObjectId>{far});
  CHECK(f.table.Arrived(far, f.Export(1)).code() == absl::StatusCode::kNotFound);
  // Its readers bring it back after a restart of the agent: then it is here.
  REQUIRE(f.table.HoldElsewhere(kOther, far).ok());
  REQUIRE(f.table.Export(kOwner, far, {kOwner, 1, 0, 0, 100}).ok());
  CHECK_FALSE(f.table.IsElsewhere(far));
  f.table.Release(kOwner, far);
  f.table.Release(kOther, far);
  CHECK(f.Sweep().empty());
  CHECK(f.table.TakeForgotten() == std::vector<ObjectId>{far});
}

TEST_CASE("HoldTable: the end of a holder ends its holds; objects outlive their owner while others hold them",
          "[object]") {
  Fixture f;
  ObjectId held = f.Export(1), lost = f.Export(2);
  REQUIRE(f.table.Hold(kReader, held).ok());
  f.table.Close(kOwner);
  f.table.OwnerEnded({{JobId("job"), "owner", 0}, 1}, "killed by signal 9");
  CHECK(f.Sweep().empty());
  CHECK(f.table.Hold(kOther, held).ok());
  absl::Status status = f.table.Hold(kOther, lost).status();
  CHECK(std::string(status.message()).find("its owner job/owner/0#1 has ended (killed by signal 9)") !=
        std::string::npos);
  CHECK(f.table.FindFile(kOwner, 1).ok());
  f.table.Close(kReader);
  f.table.Release(kOther, held);
  CHECK(f.Sweep().empty());  // There is nobody to tell.
  CHECK(f.table.files() == 0);
  CHECK(f.budget.bytes == 0);
  CHECK(f.table.TakeDropped() == std::vector<std::pair<ObjectProcess, uint32_t>>{{kOwner, 1}});
}

TEST_CASE("HoldTable: files over the budget, places outside a file and processes without a session are refused",
          "[object]") {
  Fixture f;
  CHECK(f.table.AddFile(kOwner, kOwner, 2, UniqueFd(), 1 << 20).code() == absl::StatusCode::kResourceExhausted);
  CHECK(f.table.AddFile(99, 99, 1, UniqueFd(), 10).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(f.table.Export(kOwner, {kOwner, 1}, {kOwner, 1, 0, 4000, 97}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.table.Export(kOwner, {kOwner, 1}, {kOwner, 1, 0, INT64_MAX, 97}).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(f.table.Export(kOwner, {kOwner, 1}, {kOwner, 3, 0, 0, 1}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.table.Hold(99, {kOwner, 1}).status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(f.budget.bytes == 4096);
}

TEST_CASE("HoldTable: what was promised before the export counts", "[object]") {
  Fixture f;
  ObjectId id{kOwner, 5};
  f.table.Promise(kReader, id);
  f.Export(5);
  f.table.Release(kOwner, id);
  CHECK(f.Sweep().empty());
  f.table.Release(kReader, id);
  CHECK(f.Sweep().size() == 1);
}

TEST_CASE("BlockPool: blocks do not overlap, are used again, and idle files go", "[object]") {
  BlockPool pool;
  uint32_t files = 0;
  std::mt19937_64 random(1);
  struct Taken {
    ObjectBlock block;
    int64_t bytes;
    std::byte mark;
  };
  std::vector<Taken> taken;
  for (int i = 0; i < 4000; ++i) {
    if (!taken.empty() && random() % 5 < 2) {
      size_t at = random() % taken.size();
      const Taken& t = taken[at];
      REQUIRE((t.block.data[0] == t.mark && t.block.data[t.bytes - 1] == t.mark));
      pool.Free(t.block.file, t.block.index);
      taken[at] = taken.back();
      taken.pop_back();
      continue;
    }
    auto bytes = static_cast<int64_t>(1 + (random() % (int64_t{1} << (random() % 22))));
    std::optional<ObjectBlock> block = pool.Allocate(bytes);
    if (!block.has_value()) {
      int64_t size = BlockPool::FileBytes(bytes);
      pool.AddFile(++files, PooledFile::Create("test", size).value(), bytes);
      block = pool.Allocate(bytes);
    }
    REQUIRE(block.has_value());
    CHECK(reinterpret_cast<uintptr_t>(block->data) % 64 == 0);
    Taken t{*block, bytes, static_cast<std::byte>(random())};
    t.block.data[0] = t.block.data[bytes - 1] = t.mark;
    taken.push_back(t);
    if (pool.bytes() > int64_t{400} << 20) break;
  }
  for (const Taken& t : taken) pool.Free(t.block.file, t.block.index);
  CHECK(pool.idle_bytes() == pool.bytes());
  CHECK(pool.Trim(0).size() == files);
  CHECK(pool.bytes() == 0);
  CHECK_FALSE(pool.Allocate(10).has_value());
}

TEST_CASE("BlockPool: sizes waste little, and one object of 64 MiB has a file of its own", "[object]") {
  for (int64_t bytes : {int64_t{9000}, int64_t{100'000}, int64_t{1} << 20, (int64_t{64} << 20) + 128}) {
    CHECK(BlockPool::BlockBytes(bytes) >= bytes);
    CHECK(BlockPool::BlockBytes(bytes) <= bytes + std::max<int64_t>(bytes / 16, 4096));
  }
  CHECK(BlockPool::FileBytes(int64_t{64} << 20) == (int64_t{64} << 20) + 4096);
  CHECK(BlockPool::FileBytes(100) < (17 << 20));
}

TEST_CASE("HoldTable: a worker's quota is of all that it owns, and names itself when it is full", "[object]") {
  ObjectBudget budget{.bytes_max = 1 << 20, .worker_bytes_max = 10'000};
  HoldTable table{budget};
  const ActorLife life{{JobId("job"), "rollout", 1}, 3};
  table.Open(7, "rollout", life);
  table.Open(8, "controller", {});
  CHECK(table.AddFile(7, 7, 1, UniqueFd(), 4096).ok());
  CHECK(table.AddFile(7, 7, 2, UniqueFd(), 4096).ok());
  const absl::Status full = table.AddFile(7, 7, 3, UniqueFd(), 4096);
  CHECK(absl::IsResourceExhausted(full));
  CHECK(full.message() ==
        "the objects of job/rollout/1 hold 8192 bytes of its quota of 10000; 4096 more do not fit (troupe node "
        "--worker-objects sets the quota)");
  // Who is nobody's worker has the whole.
  CHECK(table.AddFile(8, 8, 1, UniqueFd(), 100'000).ok());
  table.RemoveFile(7, 1);
  CHECK(table.AddFile(7, 7, 3, UniqueFd(), 4096).ok());
  table.Close(7);
  CHECK(budget.of_workers.empty());
  CHECK(budget.bytes == 100'000);
}

}  // namespace
}  // namespace troupe
