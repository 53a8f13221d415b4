// SPDX-License-Identifier: Apache-2.0
// Strong ids. An actor's path is "job/role/replica"; an incarnation is one life of it; a node is named by its agent.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "troupe/v1/common.pb.h"

namespace troupe {

// A string that cannot be mixed up with another kind of string. Ordered and hashable.
template <typename Tag>
class StringId {
 public:
  StringId() = default;
  explicit StringId(std::string value) : value_(std::move(value)) {}
  const std::string& value() const { return value_; }
  bool empty() const { return value_.empty(); }
  friend auto operator<=>(const StringId&, const StringId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const StringId& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  std::string value_;
};

using JobId = StringId<struct JobIdTag>;
using NodeId = StringId<struct NodeIdTag>;

// "job/role/replica": one replica over all its lives.
struct ActorPath {
  JobId job;
  std::string role;
  int32_t replica = 0;

  std::string ToString() const;
  v1::ActorId ToProto() const;
  static ActorPath FromProto(const v1::ActorId& id);
  // INVALID_ARGUMENT when `text` does not have the form.
  static absl::StatusOr<ActorPath> Parse(std::string_view text);
  friend auto operator<=>(const ActorPath&, const ActorPath&) = default;
};

// One life of a replica: "job/role/replica#incarnation".
struct ActorLife {
  ActorPath path;
  uint64_t incarnation = 0;

  std::string ToString() const;
  v1::ActorIncarnation ToProto() const;
  static ActorLife FromProto(const v1::ActorIncarnation& life);
  static absl::StatusOr<ActorLife> Parse(std::string_view text);
  friend auto operator<=>(const ActorLife&, const ActorLife&) = default;
};

}  // namespace troupe
