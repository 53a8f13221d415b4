// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/batch_of_rows.h"

#include <string>
#include <unordered_map>

namespace troupe {
namespace {

std::vector<int32_t> Tokens(const v1::Row& row, const char* column) {
  auto it = row.columns().find(column);
  if (it == row.columns().end()) return {};
  return {it->second.int32s().values().begin(), it->second.int32s().values().end()};
}

std::vector<float> Floats(const v1::Row& row, const char* column) {
  auto it = row.columns().find(column);
  if (it == row.columns().end()) return {};
  return {it->second.floats().values().begin(), it->second.floats().values().end()};
}

}  // namespace

absl::StatusOr<TrainBatch> BatchOfRows(const v1::TrainStepRequest& request, const std::vector<v1::Row>& rows) {
  std::unordered_map<std::string, const v1::Row*> by_id;
  for (const v1::Row& row : rows) by_id[row.row_id()] = &row;
  TrainBatch batch;
  for (const v1::TrainRow& wanted : request.rows()) {
    auto it = by_id.find(wanted.row_id());
    if (it == by_id.end()) return absl::DataLossError("row '" + wanted.row_id() + "' was not delivered");
    const v1::Row& row = *it->second;
    if (batch.groups.empty() || batch.groups.back().group_id != wanted.group_id()) {
      TrainGroup& group = batch.groups.emplace_back();
      group.group_id = wanted.group_id();
      group.prompt_ids = Tokens(row, "prompt_ids");
    }
    TrainSample& sample = batch.groups.back().samples.emplace_back();
    sample.row_id = wanted.row_id();
    sample.response_ids = Tokens(row, "response_ids");
    sample.rollout_logprobs = Floats(row, "rollout_logprobs");
    sample.ref_logprobs = Floats(row, "ref_logprobs");
    sample.reward = wanted.reward();
    sample.truncated = row.finish_reason() == "length";
    for (const v1::VersionSpan& span : row.spans()) {
      sample.version_spans.push_back({.version = span.version().step(), .begin = span.begin(), .end = span.end()});
    }
  }
  return batch;
}

}  // namespace troupe
