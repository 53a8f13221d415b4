// SPDX-License-Identifier: Apache-2.0
// What a consumer of rows does: fetch from every shard named, put columns back. Used by reward, reference and trainer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "troupe/v1/experience.pb.h"
#include "troupe/v1/roles.pb.h"

namespace grpc {
class Channel;
}

namespace troupe {

// The channel to a shard ("rollout/0"), wherever it lives now; UNAVAILABLE while it is away.
using ShardChannels = std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(const std::string& shard)>;

// How long one shard may take to deliver rows: beyond it the call fails and the controller tries again.
inline constexpr absl::Duration kFetchTimeout = absl::Seconds(60);

// The rows of all sources, in the order in which they are named. Errors name the shard.
absl::StatusOr<std::vector<v1::Row>> FetchSources(const google::protobuf::RepeatedPtrField<v1::RowSource>& sources,
                                                  const std::vector<std::string>& columns,
                                                  const ShardChannels& channel_to);

}  // namespace troupe
