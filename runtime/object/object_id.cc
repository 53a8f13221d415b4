// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_id.h"

#include "absl/strings/str_format.h"

namespace troupe {

std::string ObjectId::ToString() const { return absl::StrFormat("object %016x#%d", process, sequence); }

v1::ObjectName ObjectId::ToProto() const {
  v1::ObjectName name;
  name.set_process(process);
  name.set_sequence(sequence);
  return name;
}

v1::ObjectPlace ObjectPlace::ToProto() const {
  v1::ObjectPlace place;
  place.set_process(process);
  place.set_file(file);
  place.set_block(block);
  place.set_offset(offset);
  place.set_size_bytes(bytes);
  return place;
}

ObjectPlace ObjectPlace::FromProto(const v1::ObjectPlace& place) {
  return {place.process(), place.file(), place.block(), place.offset(), place.size_bytes()};
}

}  // namespace troupe
