// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/row_source_reader.h"

#include "runtime/base/status.h"
#include "runtime/stream/row_store.h"

namespace troupe {

absl::StatusOr<std::vector<v1::Row>> FetchSources(const google::protobuf::RepeatedPtrField<v1::RowSource>& sources,
                                                  const std::vector<std::string>& columns,
                                                  const ShardChannels& channel_to) {
  std::vector<v1::Row> rows;
  for (const v1::RowSource& source : sources) {
    std::vector<std::string> row_ids(source.row_ids().begin(), source.row_ids().end());
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = channel_to(source.shard());
    if (!channel.ok()) return Annotate(channel.status(), "rows of " + source.shard());
    absl::StatusOr<std::vector<v1::Row>> part = FetchRows(*channel, row_ids, columns, kFetchTimeout);
    if (!part.ok()) return Annotate(part.status(), "rows of " + source.shard());
    for (v1::Row& row : *part) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace troupe
