// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/batch_of_rows.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace troupe {
namespace {

v1::Row MakeRow(const std::string& id, std::vector<int32_t> response) {
  v1::Row row;
  row.set_row_id(id);
  (*row.mutable_columns())["prompt_ids"].mutable_int32s()->add_values(7);
  for (int32_t token : response) {
    (*row.mutable_columns())["response_ids"].mutable_int32s()->add_values(token);
    (*row.mutable_columns())["rollout_logprobs"].mutable_floats()->add_values(-1);
  }
  v1::VersionSpan* span = row.add_spans();
  span->mutable_version()->set_step(3);
  span->set_end(static_cast<int32_t>(response.size()));
  row.set_finish_reason("length");
  return row;
}

}  // namespace

TEST_CASE("BatchOfRows: groups and samples come in the order of the request, whatever order the shards had",
          "[trainer]") {
  v1::TrainStepRequest request;
  for (const char* id : {"0-5-0", "0-5-1", "0-2-0"}) {
    v1::TrainRow* row = request.add_rows();
    row->set_row_id(id);
    row->set_group_id(std::string(id).substr(0, 3));
    row->set_reward(id[4] - '0');
  }
  std::vector<v1::Row> rows = {MakeRow("0-2-0", {1}), MakeRow("0-5-1", {2, 3}), MakeRow("0-5-0", {4})};
  TrainBatch batch = *BatchOfRows(request, rows);
  REQUIRE(batch.groups.size() == 2);
  CHECK(batch.groups[0].group_id == "0-5");
  CHECK(batch.groups[0].prompt_ids == std::vector<int32_t>{7});
  REQUIRE(batch.groups[0].samples.size() == 2);
  CHECK(batch.groups[0].samples[1].response_ids == std::vector<int32_t>{2, 3});
  CHECK(batch.groups[0].samples[1].reward == 1);
  CHECK(batch.groups[0].samples[1].version_spans[0].version == 3);
  CHECK(batch.groups[0].samples[1].ref_logprobs.empty());
  CHECK(batch.groups[1].samples[0].truncated);
  rows.pop_back();
  CHECK(BatchOfRows(request, rows).status().code() == absl::StatusCode::kDataLoss);
}

}  // namespace troupe
