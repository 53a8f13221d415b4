// SPDX-License-Identifier: Apache-2.0
// Where the shards of the stream are now, by the job's directory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/actor/actor_context.h"
#include "runtime/stream/row_source_reader.h"
#include "runtime/worker/actor_directory.h"

namespace troupe {

// The channel to a replica ("rollout/0"). UNAVAILABLE while it is away.
inline absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelToReplica(ActorContext& context, const std::string& name) {
  size_t slash = name.rfind('/');
  if (slash == std::string::npos) return absl::InvalidArgumentError("'" + name + "' names no replica");
  auto entry = context.directory().Find(name.substr(0, slash), std::atoi(name.c_str() + slash + 1));
  if (!entry || !entry->ready()) return absl::UnavailableError(name + " is away");
  return context.ChannelTo(entry->address.endpoint);
}

inline ShardChannels ShardChannelsOf(ActorContext& context) {
  return [&context](const std::string& shard) { return ChannelToReplica(context, shard); };
}

}  // namespace troupe
