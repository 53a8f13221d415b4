// SPDX-License-Identifier: Apache-2.0
// TROUPE_STRUCT: lets a plain struct travel, as the list of its fields in the order named.
//
//   struct Move { std::string piece; int32_t from = 0; int32_t to = 0; };
//   TROUPE_STRUCT(Move, piece, from, to);             // after the struct, in its namespace
//   TROUPE_STRUCT_VERSION(Move, 2, piece, from, to);  // the same, after its fields were changed
//
// A peer whose struct has another name, version or number of fields gets an error that says which it sent and which is
// expected. Up to 64 fields; the struct is default-constructible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "runtime/actor/codec_types.h"
#include "runtime/actor/for_each.h"

#define TROUPE_STRUCT(Type, ...) TROUPE_STRUCT_VERSION(Type, 1, __VA_ARGS__)
#define TROUPE_STRUCT_VERSION(Type, Version, ...)                                                                    \
  [[maybe_unused]] inline constexpr auto TroupeDescribeStruct(const Type*) {                                         \
    using TroupeSelf = Type;                                                                                         \
    return ::troupe::internal::StructDescription(#Type, Version,                                                     \
                                                 ::std::tuple(TROUPE_FOR_EACH_(TROUPE_STRUCT_FIELD_, __VA_ARGS__))); \
  }                                                                                                                  \
  static_assert(true, "a semicolon follows")
#define TROUPE_STRUCT_FIELD_(Name) &TroupeSelf::Name

namespace troupe::internal {

template <typename Fields>
struct StructDescription {
  constexpr StructDescription(std::string_view name, uint32_t version, Fields fields)
      : name(name), version(version), fields(fields) {}
  std::string_view name;
  uint32_t version;
  Fields fields;  // Pointers to members.
};

template <typename T>
concept DescribedStruct = requires(const T* value) {
  TroupeDescribeStruct(value);
};

template <DescribedStruct T>
struct Codec<T> {
  static void Write(const T& value, std::string& out) {
    constexpr auto kStruct = TroupeDescribeStruct(static_cast<const T*>(nullptr));
    WriteTag(CodecTag::kStruct, out);
    WriteBytes(kStruct.name, out);
    WriteVarint(kStruct.version, out);
    WriteVarint(std::tuple_size_v<decltype(kStruct.fields)>, out);
    std::apply(
        [&](auto... field) {
          static_assert((HasCodec<std::decay_t<decltype(value.*field)>> && ...), "a field of this type cannot travel");
          (Codec<std::decay_t<decltype(value.*field)>>::Write(value.*field, out), ...);
        },
        kStruct.fields);
  }
  static bool Read(CodecReader& reader, T& value) {
    constexpr auto kStruct = TroupeDescribeStruct(static_cast<const T*>(nullptr));
    constexpr size_t kFields = std::tuple_size_v<decltype(kStruct.fields)>;
    if (!reader.ExpectStruct(kStruct.name, kStruct.version, kFields)) return false;
    return std::apply(
        [&](auto... field) { return (Codec<std::decay_t<decltype(value.*field)>>::Read(reader, value.*field) && ...); },
        kStruct.fields);
  }
};

}  // namespace troupe::internal
