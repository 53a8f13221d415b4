// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/row_shard.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "runtime/env/file.h"

namespace troupe {
namespace {

class Folder {
 public:
  Folder() : path(*MakeTemporaryDirectory("row-shard-test")) {}
  ~Folder() { RemoveTree(path).IgnoreError(); }
  const std::string path;
};

std::unique_ptr<RowShard> OpenShard(const std::string& path, int64_t segment_bytes = 64 << 20) {
  auto shard = RowShard::Open({.directory = path, .name = "rollout/0", .segment_bytes_max = segment_bytes});
  REQUIRE(shard.ok());
  return *std::move(shard);
}

v1::Row MakeRow(const std::string& group, int sample, int tokens = 5) {
  v1::Row row;
  row.set_row_id(group + "-" + std::to_string(sample));
  row.set_group_id(group);
  row.set_sample_index(sample);
  for (int i = 0; i < tokens; ++i) (*row.mutable_columns())["response_ids"].mutable_int32s()->add_values(sample + i);
  return row;
}

v1::PutColumnRequest Column(const std::string& row_id, double value) {
  v1::PutColumnRequest request;
  request.set_column("score");
  request.add_row_ids(row_id);
  request.add_values()->set_number(value);
  return request;
}

}  // namespace

TEST_CASE("RowShard: rows and columns are there again after the process died", "[stream]") {
  Folder folder;
  {
    auto shard = OpenShard(folder.path);
    REQUIRE(shard->Append({MakeRow("0-1", 0), MakeRow("0-1", 1)}).ok());
    REQUIRE(shard->PutColumn(Column("0-1-1", 3)).ok());
  }
  auto shard = OpenShard(folder.path);
  CHECK(shard->rows() == 2);
  v1::Row row = *shard->Read("0-1-1", {});
  CHECK(row.columns().at("score").number() == 3);
  CHECK(row.columns().at("response_ids").int32s().values(4) == 5);
  CHECK(shard->Read("0-1-1", {"score"})->columns_size() == 1);
  CHECK(shard->GroupRows("0-1").size() == 2);
  CHECK(shard->GroupRows("0-1")[1].response_length() == 5);
}

TEST_CASE("RowShard: a column put twice and a row made again stay the first; another shape is refused", "[stream]") {
  Folder folder;
  auto shard = OpenShard(folder.path);
  REQUIRE(shard->Append({MakeRow("0-1", 0)}).ok());
  REQUIRE(shard->PutColumn(Column("0-1-0", 3)).ok());
  CHECK(shard->PutColumn(Column("0-1-0", 3)).ok());
  CHECK(shard->PutColumn(Column("0-1-0", 3.0000001)).ok());
  CHECK(shard->Read("0-1-0", {})->columns().at("score").number() == 3);
  v1::PutColumnRequest other = Column("0-1-0", 0);
  other.mutable_values(0)->mutable_floats()->add_values(3);
  CHECK(shard->PutColumn(other).code() == absl::StatusCode::kAlreadyExists);
  other.set_column("ref_logprobs");
  REQUIRE(shard->PutColumn(other).ok());
  other.mutable_values(0)->mutable_floats()->add_values(4);
  CHECK(shard->PutColumn(other).code() == absl::StatusCode::kAlreadyExists);
  CHECK(shard->PutColumn(Column("0-1-7", 4)).code() == absl::StatusCode::kNotFound);
  REQUIRE(shard->Append({MakeRow("0-1", 0, 9)}).ok());
  CHECK(shard->Read("0-1-0", {})->columns().at("response_ids").int32s().values_size() == 5);
}

TEST_CASE("RowShard: released rows' segments are deleted, oldest first, and disk use stays flat", "[stream]") {
  Folder folder;
  auto shard = OpenShard(folder.path, 4096);
  for (int round = 0; round < 50; ++round) {
    std::string group = "0-" + std::to_string(round);
    std::vector<v1::Row> rows;
    std::vector<std::string> ids;
    for (int i = 0; i < 20; ++i) rows.push_back(MakeRow(group, i, 50)), ids.push_back(rows.back().row_id());
    REQUIRE(shard->Append(rows).ok());
    REQUIRE(shard->Release(ids).ok());
    CHECK(shard->bytes() < 5 * 4096);
  }
  shard.reset();
  CHECK(OpenShard(folder.path)->rows() == 0);
}

TEST_CASE("RowShard: rows beyond its limits of number and bytes are refused until some are released", "[stream]") {
  for (bool by_bytes : {false, true}) {
    Folder folder;
    RowShardOptions options{.directory = folder.path, .name = "rollout/0", .segment_bytes_max = 512};
    (by_bytes ? options.bytes_max : options.rows_max) = by_bytes ? 4096 : 10;
    auto shard = *RowShard::Open(options);
    std::vector<std::string> ids;
    absl::Status status;
    for (int i = 0; status.ok() && i < 1000; ++i) {
      status = shard->Append({MakeRow("0-1", i)});
      if (status.ok()) ids.push_back("0-1-" + std::to_string(i));
    }
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(status.message().find("set trainer.save_freq") != absl::string_view::npos);
    CHECK(shard->bytes() < 4096 + 512);
    CHECK(shard->Append({MakeRow("0-1", 0)}).ok());  // is there already
    REQUIRE(shard->Release(ids).ok());
    CHECK(shard->Append({MakeRow("0-1", 2000)}).ok());
  }
}

TEST_CASE("RowShard: a torn end is cut off, damage before it is refused with file and place", "[stream]") {
  Folder folder;
  std::string path = folder.path + "/segment-00000001.rows";
  {
    auto shard = OpenShard(folder.path);
    REQUIRE(shard->Append({MakeRow("0-1", 0), MakeRow("0-1", 1)}).ok());
  }
  std::string whole = *ReadFile(path, 1 << 20);
  for (size_t cut = 8; cut < whole.size(); cut += 3) {
    REQUIRE(WriteFileAtomic(path, whole.substr(0, cut)).ok());
    int64_t rows = OpenShard(folder.path)->rows();
    CHECK(rows < 2);
  }
  std::string flipped = whole;
  flipped[20] ^= 1;
  REQUIRE(WriteFileAtomic(path, flipped).ok());
  absl::Status status = RowShard::Open({.directory = folder.path, .name = "rollout/0"}).status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(status.message().find("segment-00000001.rows") != absl::string_view::npos);
}

TEST_CASE("RowShard: rows saved with a checkpoint come back in an empty shard", "[stream]") {
  Folder folder;
  auto shard = OpenShard(folder.path + "/a");
  REQUIRE(shard->Append({MakeRow("0-1", 0), MakeRow("0-1", 1)}).ok());
  REQUIRE(shard->PutColumn(Column("0-1-1", 3)).ok());
  REQUIRE(shard->Save({"0-1-1"}, folder.path + "/saved").ok());
  auto other = OpenShard(folder.path + "/b");
  REQUIRE(other->Load({"0-1-0", "0-1-1"}, folder.path + "/saved").ok());
  CHECK(other->rows() == 1);
  CHECK(other->Read("0-1-1", {})->columns().at("score").number() == 3);
}

TEST_CASE("RowShard: random histories with deaths agree with one map", "[stream]") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Folder folder;
    std::mt19937 random(seed);
    auto shard = OpenShard(folder.path, 2000);
    std::map<std::string, std::map<std::string, double>> simple;
    for (int i = 0; i < 300; ++i) {
      std::string group = "0-" + std::to_string(random() % 12);
      std::string id = group + "-" + std::to_string(random() % 3);
      switch (random() % 5) {
        case 0:
        case 1:
          REQUIRE(shard->Append({MakeRow(group, id.back() - '0')}).ok());
          simple[id];
          break;
        case 2: {
          absl::Status put = shard->PutColumn(Column(id, 7));
          REQUIRE(put.ok() == simple.contains(id));
          if (put.ok()) simple[id]["score"] = 7;
          break;
        }
        case 3:
          REQUIRE(shard->Release({id}).ok());
          simple.erase(id);
          break;
        case 4:
          shard.reset();
          shard = OpenShard(folder.path, 2000);
          break;
      }
      REQUIRE(shard->rows() == std::ssize(simple));
    }
    for (const auto& [id, columns] : simple) {
      REQUIRE(shard->Read(id, {})->columns_size() == static_cast<int>(1 + columns.size()));
    }
  }
}

}  // namespace troupe
