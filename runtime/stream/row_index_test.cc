// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/row_index.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace troupe {
namespace {

const std::set<std::string> kShards = {"rollout/0"};

std::string GroupName(uint64_t sequence) { return "0-" + std::to_string(sequence); }

std::vector<v1::RowMeta> RowsOf(uint64_t sequence, int n, int64_t version = 0) {
  std::vector<v1::RowMeta> rows(n);
  for (int i = 0; i < n; ++i) {
    rows[i].set_group_id(GroupName(sequence));
    rows[i].set_row_id(GroupName(sequence) + "-" + std::to_string(i));
    rows[i].set_sample_index(i);
    rows[i].set_shard("rollout/0");
    rows[i].add_spans()->mutable_version()->set_step(version);
  }
  return rows;
}

RowIndexOptions Options(int64_t batch, int64_t staleness = 0) {
  return {.groups_per_batch = batch, .rows_per_group_min = 2, .max_staleness = staleness, .columns = {"reward"}};
}

void Generate(RowIndex& index, uint64_t sequence, int n = 3, int64_t version = 0) {
  REQUIRE(index.OpenGroup(sequence, GroupName(sequence)).ok());
  REQUIRE(index.AddRows(sequence, RowsOf(sequence, n, version)).ok());
}

void ScoreAll(RowIndex& index) {
  for (const v1::RowMeta& row : index.Lease({"reward/0", 1}, "reward", 1000, kShards)) {
    REQUIRE(index.AddColumn(row.row_id(), "reward", 1).ok());
  }
}

}  // namespace

TEST_CASE("RowIndex: a batch is whole groups in order, when all of them are ready", "[stream]") {
  RowIndex index(Options(2, 1));
  std::vector<uint64_t> stale;
  for (uint64_t s : {0, 1, 2}) REQUIRE(index.OpenGroup(s, GroupName(s)).ok());
  REQUIRE(index.AddRows(1, RowsOf(1, 3)).ok());
  REQUIRE(index.AddRows(2, RowsOf(2, 3)).ok());
  ScoreAll(index);
  CHECK_FALSE(index.NextBatch(0, false, &stale).has_value());  // 0 is not there, though 1 and 2 are ready
  REQUIRE(index.AddRows(0, RowsOf(0, 3)).ok());
  CHECK_FALSE(index.NextBatch(0, false, &stale).has_value());  // not scored
  ScoreAll(index);
  CHECK(index.NextBatch(0, false, &stale) == std::vector<uint64_t>{0, 1});
}

TEST_CASE("RowIndex: credits follow the staleness formula and gate by the producer's version", "[stream]") {
  RowIndex index(Options(4, 1));
  CHECK(index.Capacity(0) == 8);
  CHECK(index.Capacity(2) == 16);
  for (uint64_t s = 0; s < 8; ++s) Generate(index, s);
  CHECK(index.Capacity(0) == 0);
  CHECK(index.MayGenerate(7, 0));
  REQUIRE(index.OpenGroup(8, GroupName(8)).ok());
  REQUIRE(index.OpenGroups().size() == 1);
  CHECK(index.OpenGroups()[0].sequence == 8);
  CHECK(index.OpenGroups()[0].position == 8);
  CHECK_FALSE(index.MayGenerate(8, 0));
  CHECK(index.MayGenerate(8, 1));
  REQUIRE(index.DropGroup(3).ok());
  CHECK(index.OpenGroups()[0].position == 7);  // its place moved forward
  RowIndexOptions bounded = Options(4, 5);
  bounded.total_steps = 2;
  CHECK(RowIndex(bounded).Capacity(0) == 8);
}

TEST_CASE("RowIndex: a dead consumer's leases return, a late answer of it is refused", "[stream]") {
  RowIndex index(Options(1));
  Generate(index, 0);
  RowConsumer first{"reward/0", 1}, second{"reward/0", 2};
  CHECK(index.Lease(first, "reward", 2, kShards).size() == 2);
  CHECK(index.Lease(second, "reward", 10, kShards).size() == 1);
  CHECK(index.Lease(second, "reward", 10, kShards).empty());
  CHECK(index.Holds(first, "reward", "0-0-0"));
  index.EndConsumer(first);
  CHECK_FALSE(index.Holds(first, "reward", "0-0-0"));
  std::vector<v1::RowMeta> again = index.Lease(second, "reward", 10, kShards);
  REQUIRE(again.size() == 2);
  CHECK(again[0].row_id() == "0-0-0");
  CHECK(index.Lease(first, "reward", 10, {}).empty());
}

TEST_CASE("RowIndex: rows of a shard that is away are not leased", "[stream]") {
  RowIndex index(Options(1));
  Generate(index, 0);
  CHECK(index.Lease({"reward/0", 1}, "reward", 10, {"rollout/1"}).empty());
  CHECK(index.Lease({"reward/0", 1}, "reward", 10, kShards).size() == 3);
}

TEST_CASE("RowIndex: a dropped row leaves its group, a group below two goes and is refilled", "[stream]") {
  RowIndex index(Options(1));
  Generate(index, 0);
  CHECK(index.Capacity(0) == 0);
  CHECK(*index.DropRow("0-0-1") == std::vector<std::string>{"0-0-1"});
  CHECK(index.Capacity(0) == 0);  // the group keeps its place
  CHECK(*index.DropRow("0-0-0") == std::vector<std::string>{"0-0-0", "0-0-2"});
  CHECK(index.Capacity(0) == 1);
  CHECK(index.DropRow("0-0-2").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("RowIndex: groups over max_staleness are named instead of trained", "[stream]") {
  RowIndex index(Options(1, 1));
  Generate(index, 0, 3, 0);
  ScoreAll(index);
  std::vector<uint64_t> stale;
  CHECK(index.NextBatch(1, false, &stale).has_value());
  CHECK_FALSE(index.NextBatch(2, false, &stale).has_value());
  CHECK(stale == std::vector<uint64_t>{0});
  CHECK(index.NextBatch(2, true, &stale).has_value());
}

TEST_CASE("RowIndex: what a batch was stays known until it is durable", "[stream]") {
  RowIndex index(Options(1));
  Generate(index, 0);
  ScoreAll(index);
  REQUIRE(index.LeaseBatch(1, {0}).ok());
  CHECK(index.LeaseBatch(2, {0}).code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(index.MarkTrained(1).ok());
  REQUIRE(index.BatchOf(1)->groups(0).rows_size() == 3);
  CHECK(index.MarkDurable(1) == std::vector<std::string>{"0-0-0", "0-0-1", "0-0-2"});
  CHECK(index.BatchOf(1) == nullptr);
}

TEST_CASE("RowIndex: wrong rows are refused and nothing is changed", "[stream]") {
  RowIndex index(Options(1));
  REQUIRE(index.OpenGroup(0, GroupName(0)).ok());
  CHECK(index.OpenGroup(2, GroupName(2)).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(index.AddRows(0, RowsOf(1, 3)).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(index.AddRows(0, RowsOf(0, 1)).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(index.AddRows(7, RowsOf(7, 3)).code() == absl::StatusCode::kNotFound);
  REQUIRE(index.AddRows(0, RowsOf(0, 3)).ok());
  CHECK(index.AddRows(0, RowsOf(0, 3)).code() == absl::StatusCode::kAlreadyExists);
  CHECK(index.AddColumn("0-0-0", "colour", 1).code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(index.AddColumn("0-0-0", "reward", 1).ok());
  CHECK(index.AddColumn("0-0-0", "reward", 1).code() == absl::StatusCode::kFailedPrecondition);
}

// A trivially simple store: one map of groups, scanned in full for each question.
class SimpleIndex {
 public:
  struct SimpleGroup {
    bool generated = false;
    std::map<std::string, bool> scored;
  };
  int64_t leased = 0;
  int64_t batch, staleness;
  std::map<uint64_t, SimpleGroup> groups;

  SimpleIndex(int64_t batch, int64_t staleness) : batch(batch), staleness(staleness) {}
  int64_t Capacity(int64_t version) const {
    return std::max<int64_t>(0, (staleness + version + 1) * batch - leased * batch - std::ssize(groups));
  }
  std::vector<uint64_t> Batch() const {
    std::vector<uint64_t> out;
    for (const auto& [sequence, group] : groups) {
      bool ready = group.generated;
      for (const auto& [row, scored] : group.scored) ready = ready && scored;
      if (!ready || std::ssize(out) == batch) break;
      out.push_back(sequence);
    }
    return std::ssize(out) == batch ? out : std::vector<uint64_t>{};
  }
};

TEST_CASE("RowIndex: random histories agree with one simple map, over restarts from a snapshot too", "[stream]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    RowIndexOptions options = Options(1 + seed % 3, seed % 3);
    RowIndex index(options);
    SimpleIndex simple(options.groups_per_batch, options.max_staleness);
    uint64_t life = 1;
    std::vector<std::string> held;
    for (int i = 0; i < 400; ++i) {
      int64_t version = simple.leased;
      REQUIRE(index.Capacity(version) == simple.Capacity(version));
      switch (random() % 7) {
        case 0:
          if (index.Capacity(version) > 0) {
            uint64_t s = index.next_sequence();
            REQUIRE(index.OpenGroup(s, GroupName(s)).ok());
            simple.groups[s];
          }
          break;
        case 1:
          if (std::vector<PlacedGroup> open = index.OpenGroups(); !open.empty()) {
            uint64_t s = open[random() % open.size()].sequence;
            REQUIRE(index.AddRows(s, RowsOf(s, 3, version)).ok());
            simple.groups[s].generated = true;
            for (const v1::RowMeta& row : RowsOf(s, 3)) simple.groups[s].scored[row.row_id()] = false;
          }
          break;
        case 2:
          for (const v1::RowMeta& row : index.Lease({"reward/0", life}, "reward", 1 + random() % 4, kShards)) {
            held.push_back(row.row_id());
          }
          break;
        case 3:
          for (const std::string& row : held) {
            if (!index.Holds({"reward/0", life}, "reward", row)) continue;  // its group was dropped
            REQUIRE(index.AddColumn(row, "reward", 1).ok());
            for (auto& [s, group] : simple.groups) {
              if (auto it = group.scored.find(row); it != group.scored.end()) it->second = true;
            }
          }
          held.clear();
          break;
        case 4:
          if (random() % 2) {
            index.EndConsumer({"reward/0", life++});
          } else {
            index = *RowIndex::Restore(options, index.Snapshot());  // leases are soft: they are gone
            ++life;
          }
          held.clear();
          break;
        case 5:
          if (!simple.groups.empty() && random() % 3 == 0) {
            auto victim = std::next(simple.groups.begin(), random() % simple.groups.size());
            if (victim->second.generated && random() % 2) {
              std::string row = victim->second.scored.begin()->first;
              REQUIRE(index.DropRow(row).ok());
              victim->second.scored.erase(row);
              if (victim->second.scored.size() < 2) simple.groups.erase(victim);
            } else {
              REQUIRE(index.DropGroup(victim->first).ok());
              simple.groups.erase(victim);
            }
          }
          break;
        case 6: {
          std::vector<uint64_t> stale;
          std::vector<uint64_t> batch = index.NextBatch(version, true, &stale).value_or(std::vector<uint64_t>{});
          REQUIRE(batch == simple.Batch());
          if (batch.empty()) break;
          REQUIRE(index.LeaseBatch(version + 1, batch).ok());
          REQUIRE(index.MarkTrained(version + 1).ok());
          if (random() % 2) index.MarkDurable(version + 1);
          for (uint64_t s : batch) simple.groups.erase(s);
          ++simple.leased;
          break;
        }
      }
      REQUIRE(index.queued_groups() == std::ssize(simple.groups));
    }
  }
}

}  // namespace troupe
