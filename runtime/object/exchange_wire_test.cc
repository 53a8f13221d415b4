// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/exchange_wire.h"

#include <catch2/catch.hpp>
#include <functional>

#include "runtime/object/chunk_wire.h"

namespace troupe {
namespace {

const ObjectId kObject{77, 3};

TEST_CASE("Pull plans: a report is read as it was written", "[object]") {
  ChunkSwarm::Report report{.sequence = 9,
                            .fetching = {3, 4},
                            .arrived = {0, 5},
                            .failed = {{1, "a", true}, {2, "b", false}},
                            .wanted = 6,
                            .leaves = true};
  v1::PlanPullRequest request = ToProto(kObject, 7 * kChunkBytes, report);
  request.set_node_id("n");
  ChunkSwarm::Report read = ReportOf(request).value();
  CHECK(ObjectId::FromProto(request.name()) == kObject);
  CHECK(read.node == "n");
  CHECK(read.sequence == 9);
  CHECK(read.fetching == report.fetching);
  CHECK(read.arrived == report.arrived);
  REQUIRE(read.failed.size() == 2);
  CHECK((read.failed[0].chunk == 1 && read.failed[0].source == "a" && read.failed[0].lost));
  CHECK((read.failed[1].chunk == 2 && read.failed[1].source == "b" && !read.failed[1].lost));
  CHECK(read.wanted == 6);
  CHECK(read.leaves);
}

TEST_CASE("Pull plans: a report of an object or a node that cannot be is refused", "[object]") {
  v1::PlanPullRequest good = ToProto(kObject, ChunkSwarm::kChunksMax * kChunkBytes, {.sequence = 1});
  good.set_node_id(std::string(256, 'n'));
  good.set_endpoint(std::string(256, 'e'));
  CHECK(ReportOf(good).ok());
  for (const std::function<void(v1::PlanPullRequest&)>& spoil :
       {std::function<void(v1::PlanPullRequest&)>([](auto& r) { r.clear_name(); }),
        std::function<void(v1::PlanPullRequest&)>([](auto& r) { r.set_size_bytes(-1); }),
        std::function<void(v1::PlanPullRequest&)>([](auto& r) { r.set_size_bytes(r.size_bytes() + 1); }),
        std::function<void(v1::PlanPullRequest&)>([](auto& r) { r.mutable_node_id()->push_back('n'); }),
        std::function<void(v1::PlanPullRequest&)>([](auto& r) { r.mutable_endpoint()->push_back('e'); })}) {
    v1::PlanPullRequest bad = good;
    spoil(bad);
    CHECK(ReportOf(bad).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("Pull plans: the home's answer is read as it is; one with other chunks is refused", "[object]") {
  v1::PlanPullResponse response;
  response.set_chunk_bytes(kChunkBytes);
  v1::ChunkSource& source = *response.add_sources();
  source.set_chunk(4);
  source.set_crc32c(0xdeadbeef);
  source.mutable_source()->set_node_id("a");
  source.mutable_source()->set_endpoint("a:1");
  v1::NodeEndpoint& other = *response.add_others();
  other.set_node_id("b");
  other.set_endpoint("b:2");
  PlanCame plan = PlanOf(response).value();
  REQUIRE((plan.fetches.size() == 1 && plan.others.size() == 1));
  CHECK((plan.fetches[0].chunk == 4 && plan.fetches[0].crc == 0xdeadbeef));
  CHECK((plan.fetches[0].source.node == "a" && plan.fetches[0].source.endpoint == "a:1"));
  CHECK((plan.others[0].node == "b" && plan.others[0].endpoint == "b:2"));
  response.set_chunk_bytes(kChunkBytes / 2);
  CHECK(PlanOf(response).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Pull plans: a request for a chunk is read as it was written; a broken or large one is refused", "[object]") {
  for (int64_t chunk : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    ChunkName name = DecodeGetChunk(EncodeGetChunk({kObject, chunk})).value();
    CHECK((name.id == kObject && name.chunk == chunk));
  }
  auto code = [](const std::string& bytes) {
    grpc::Slice slice(bytes);
    return DecodeGetChunk(grpc::ByteBuffer(&slice, 1)).status().code();
  };
  CHECK(code("\xff") == absl::StatusCode::kInvalidArgument);
  // A field that nobody knows is skipped, unless it is long.
  auto padded = [](size_t size) {
    return std::string("\x7a") + static_cast<char>(size % 128 | 128) + static_cast<char>(size / 128) +
           std::string(size, 'x');
  };
  CHECK(code(padded(1000)) == absl::StatusCode::kOk);
  CHECK(code(padded(1100)) == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace troupe
