// SPDX-License-Identifier: Apache-2.0
// The encoding of arguments and results: numbers, bool, enums, strings (any bytes), vectors, maps, optionals, pairs,
// tuples, structs that name their fields (codec_struct.h), refs of actors (ref.h), objects (object_ref.h) and protobuf
// messages. A type that
// has no encoding is a compile error; bytes that do not hold the type asked for are INVALID_ARGUMENT with what was
// expected and found.
//
//   document := version (one byte, 1) value; nothing may follow
//   value    := tag (one byte) body                              (lengths, counts and integers are LEB128 varints)
//     0x01 false · 0x02 true · 0x03 signed (zigzag) · 0x04 unsigned · 0x05 float (4 bytes) · 0x06 double (8 bytes)
//     0x07 bytes: length, bytes · 0x08 list: count, values · 0x09 map: count, key and value each
//     0x0A nothing (an empty optional) · 0x0B message: length and full name, length and protobuf bytes
//     0x0C tuple: count, values · 0x0D array: element tag (0x05, 0x06), count, elements of fixed size, little endian
//     0x0E ref: three times length and bytes: class, life, endpoint · 0x0F struct: length and name, version, count,
//     values 0x10 array of integers: width in bytes (4, 8; 0x80 more: unsigned), count, elements, little endian
//     0x11 ref of an object: kind ('b' bytes, 't' tensor, 'v' value), form (0 none, 1 content, 2 place); then process
//     (8 bytes), sequence number; content: length and bytes; place: size, process of the file (8 bytes), file, block,
//     offset, owner, node and its endpoint (length and bytes each), sender (8 bytes), number of the transit
//
// Integers of any width are read into any other that holds their value. Nothing is allocated beyond what the bytes at
// hand can fill, so a count that lies costs nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/codec_struct.h"
#include "runtime/actor/codec_types.h"

namespace troupe {

class CallRouter;

// What can travel.
template <typename T>
concept Encodable = internal::HasCodec<T>;

template <Encodable T>
std::string Encode(const T& value) {
  std::string bytes(1, internal::kCodecVersion);
  internal::Codec<T>::Write(value, bytes);
  return bytes;
}

namespace internal {

template <Encodable T, typename Given>
void WriteAs(Given&& given, std::string& out) {
  if constexpr (std::is_same_v<T, std::decay_t<Given>>) {
    Codec<T>::Write(given, out);
  } else {
    const T value = std::forward<Given>(given);
    Codec<T>::Write(value, out);
  }
}

// As Encode of the tuple of `Ts` that `given` make, without copying those that have their type already.
template <Encodable... Ts, typename... Given>
std::string EncodeTuple(const std::tuple<Ts...>*, Given&&... given) {
  std::string bytes(1, kCodecVersion);
  WriteTag(CodecTag::kTuple, bytes);
  WriteVarint(sizeof...(Ts), bytes);
  (WriteAs<Ts>(std::forward<Given>(given), bytes), ...);
  return bytes;
}

}  // namespace internal

// `router`: what the refs in it will call through; refs without one are INVALID_ARGUMENT.
template <Encodable T>
absl::StatusOr<T> Decode(std::string_view bytes, const std::shared_ptr<CallRouter>& router = nullptr) {
  internal::CodecReader reader(bytes, router);
  T value{};
  if (reader.ReadVersion() && internal::Codec<T>::Read(reader, value) && reader.ReadEnd()) return value;
  return reader.error();
}

}  // namespace troupe
