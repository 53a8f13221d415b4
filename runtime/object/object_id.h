// SPDX-License-Identifier: Apache-2.0
// Names of counted objects. ObjectId: who made it and its number there; never used twice. ObjectPlace: where its bytes
// lie in a memory file.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "troupe/v1/object.pb.h"

namespace troupe {

// A process that has objects, by a random number that it gives itself.
using ObjectProcess = uint64_t;

struct ObjectId {
  ObjectProcess process = 0;  // 0: of no object.
  uint64_t sequence = 0;

  // "object 1f2e...#7"
  std::string ToString() const;
  v1::ObjectName ToProto() const;
  static ObjectId FromProto(const v1::ObjectName& name) { return {name.process(), name.sequence()}; }
  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ObjectId& id) {
    return H::combine(std::move(h), id.process, id.sequence);
  }
};

struct ObjectPlace {
  ObjectProcess process = 0;  // Whose file.
  uint32_t file = 0;
  uint32_t block = 0;
  int64_t offset = 0;
  int64_t bytes = 0;

  v1::ObjectPlace ToProto() const;
  static ObjectPlace FromProto(const v1::ObjectPlace& place);
  friend bool operator==(const ObjectPlace&, const ObjectPlace&) = default;
};

}  // namespace troupe
