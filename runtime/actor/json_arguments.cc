// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/json_arguments.h"

#include <cmath>

#include "runtime/actor/codec.h"
// libprotobuf is not built for the thread sanitizer, for which its headers lay out maps in another way.
#undef __SANITIZE_THREAD__
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

namespace troupe {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Value;
using internal::CodecTag;

// Beyond it a double does not hold every integer.
constexpr double kWholeMax = 9007199254740992.0;

void WriteNumber(double number, std::string& out) {
  if (std::nearbyint(number) == number && std::fabs(number) <= kWholeMax) {
    internal::WriteSigned(static_cast<int64_t>(number), out);
  } else {
    internal::Codec<double>::Write(number, out);
  }
}

// The depth is bounded by protobuf's JSON parser.
void WriteValue(const Value& value, std::string& out) {
  switch (value.kind_case()) {
    case Value::kNumberValue:
      return WriteNumber(value.number_value(), out);
    case Value::kStringValue:
      return internal::Codec<std::string>::Write(value.string_value(), out);
    case Value::kBoolValue:
      return internal::Codec<bool>::Write(value.bool_value(), out);
    case Value::kListValue:
      internal::WriteTag(CodecTag::kList, out);
      internal::WriteVarint(static_cast<uint64_t>(value.list_value().values_size()), out);
      for (const Value& element : value.list_value().values()) WriteValue(element, out);
      return;
    case Value::kStructValue:
      internal::WriteTag(CodecTag::kMap, out);
      internal::WriteVarint(value.struct_value().fields().size(), out);
      for (const auto& [key, element] : value.struct_value().fields()) {
        internal::Codec<std::string>::Write(key, out);
        WriteValue(element, out);
      }
      return;
    default:
      return internal::WriteTag(CodecTag::kNothing, out);
  }
}

}  // namespace

absl::StatusOr<std::string> EncodeJsonArguments(std::string_view json) {
  ListValue list;
  if (!json.empty()) {
    auto parsed = google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &list);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError("constructor arguments are a JSON array: " + parsed.ToString());
    }
  }
  std::string bytes(1, internal::kCodecVersion);
  internal::WriteTag(CodecTag::kTuple, bytes);
  internal::WriteVarint(static_cast<uint64_t>(list.values_size()), bytes);
  for (const Value& value : list.values()) WriteValue(value, bytes);
  return bytes;
}

}  // namespace troupe
