// SPDX-License-Identifier: Apache-2.0
// Rows by the shard that keeps them, as the role requests name them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "troupe/v1/roles.pb.h"

namespace troupe {

// Adds to `sources` (of a ScoreRequest, LogProbsRequest or TrainStepRequest) one entry a shard with the ids of its
// rows. Shards and rows keep the order in which they first occur.
inline void AddSources(const std::vector<v1::RowMeta>& rows,
                       google::protobuf::RepeatedPtrField<v1::RowSource>* sources) {
  std::map<std::string, v1::RowSource*> by_shard;
  for (const v1::RowMeta& row : rows) {
    v1::RowSource*& source = by_shard[row.shard()];
    if (source == nullptr) {
      source = sources->Add();
      source->set_shard(row.shard());
    }
    source->add_row_ids(row.row_id());
  }
}

}  // namespace troupe
