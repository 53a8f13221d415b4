// SPDX-License-Identifier: Apache-2.0
// How each type is written and read (codec.h describes the bytes). Codec<T> has Write(value, out) and Read(reader,
// value).
#pragma once

#include <google/protobuf/message_lite.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor/codec_reader.h"

namespace troupe::internal {

static_assert(std::endian::native == std::endian::little, "floats are copied as they are");

template <typename T>
struct Codec;  // Not defined: the type cannot travel.

template <typename T>
concept HasCodec = requires(const T& value, T& out, std::string& bytes, CodecReader& reader) {
  Codec<T>::Write(value, bytes);
  { Codec<T>::Read(reader, out) } -> std::same_as<bool>;
};

template <>
struct Codec<bool> {
  static void Write(bool value, std::string& out) { WriteTag(value ? CodecTag::kTrue : CodecTag::kFalse, out); }
  static bool Read(CodecReader& reader, bool& value) {
    CodecTag tag;
    if (!reader.ReadTag(tag)) return false;
    value = tag == CodecTag::kTrue;
    return value || tag == CodecTag::kFalse || reader.Unexpected("a bool", tag);
  }
};

template <std::integral T>
struct Codec<T> {
  static void Write(T value, std::string& out) {
    if constexpr (std::is_signed_v<T>) {
      WriteSigned(value, out);
    } else {
      WriteTag(CodecTag::kUnsigned, out);
      WriteVarint(value, out);
    }
  }
  static bool Read(CodecReader& reader, T& value) {
    uint64_t bits;
    bool negative;
    if (!reader.ReadInteger(bits, negative)) return false;
    bool fits = negative ? std::is_signed_v<T> &&
                               static_cast<int64_t>(bits) >= static_cast<int64_t>(std::numeric_limits<T>::min())
                         : bits <= static_cast<uint64_t>(std::numeric_limits<T>::max());
    if (!fits) return reader.Fail("an integer that does not fit into " + std::to_string(8 * sizeof(T)) + " bits");
    value = static_cast<T>(bits);
    return true;
  }
};

template <typename T>
requires std::is_enum_v<T>
struct Codec<T> {
  using Underlying = std::underlying_type_t<T>;
  static void Write(T value, std::string& out) { Codec<Underlying>::Write(static_cast<Underlying>(value), out); }
  static bool Read(CodecReader& reader, T& value) {
    Underlying number{};
    if (!Codec<Underlying>::Read(reader, number)) return false;
    value = static_cast<T>(number);
    return true;
  }
};

template <std::floating_point T>
struct Codec<T> {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "long double has no encoding");
  static constexpr CodecTag kTag = sizeof(T) == 4 ? CodecTag::kFloat : CodecTag::kDouble;
  static void Write(T value, std::string& out) {
    WriteTag(kTag, out);
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  // An integer is read too: a job file says `3` where a double is meant.
  static bool Read(CodecReader& reader, T& value) {
    if (reader.NextIs(CodecTag::kSigned) || reader.NextIs(CodecTag::kUnsigned)) {
      uint64_t bits;
      bool negative;
      if (!reader.ReadInteger(bits, negative)) return false;
      value = negative ? static_cast<T>(static_cast<int64_t>(bits)) : static_cast<T>(bits);
      return true;
    }
    CodecTag tag;
    if (!reader.ReadTag(tag)) return false;
    if (tag == kTag) return reader.ReadFixed(&value, sizeof(T));
    if (tag != CodecTag::kFloat && tag != CodecTag::kDouble) return reader.Unexpected("a number", tag);
    return ReadOtherWidth(reader, value);
  }

 private:
  static bool ReadOtherWidth(CodecReader& reader, T& value) {
    std::conditional_t<sizeof(T) == 4, double, float> other;
    if (!reader.ReadFixed(&other, sizeof(other))) return false;
    value = static_cast<T>(other);
    return true;
  }
};

template <>
struct Codec<std::string> {
  static void Write(const std::string& value, std::string& out) {
    WriteTag(CodecTag::kBytes, out);
    WriteBytes(value, out);
  }
  static bool Read(CodecReader& reader, std::string& value) {
    std::string_view bytes;
    if (!reader.ExpectTag(CodecTag::kBytes, "bytes") || !reader.ReadBytes(bytes)) return false;
    value.assign(bytes);
    return true;
  }
};

template <typename T>
requires HasCodec<T>
struct Codec<std::vector<T>> {
  static constexpr bool kFloats = std::is_floating_point_v<T>;
  static constexpr bool kIntegers = std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);
  static constexpr bool kPacked = kFloats || kIntegers;
  static constexpr uint8_t kWidth = sizeof(T) | (std::is_unsigned_v<T> ? 0x80 : 0);

  static void Write(const std::vector<T>& values, std::string& out) {
    if constexpr (kFloats) {
      WriteTag(CodecTag::kArray, out);
      WriteTag(Codec<T>::kTag, out);
    } else if constexpr (kIntegers) {
      WriteTag(CodecTag::kIntegers, out);
      out.push_back(static_cast<char>(kWidth));
    } else {
      WriteTag(CodecTag::kList, out);
    }
    WriteVarint(values.size(), out);
    if constexpr (kPacked) {
      out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    } else {
      for (const auto& value : values) Codec<T>::Write(value, out);
    }
  }

  static bool Read(CodecReader& reader, std::vector<T>& values) {
    values.clear();
    if constexpr (kPacked) {
      if (reader.NextIs(kFloats ? CodecTag::kArray : CodecTag::kIntegers)) return ReadPacked(reader, values);
    }
    uint64_t count;
    if (!reader.ExpectTag(CodecTag::kList, "a list") || !reader.ReadCount(count, 1)) return false;
    for (uint64_t i = 0; i < count; ++i) {
      T value{};
      if (!Codec<T>::Read(reader, value)) return false;
      values.push_back(std::move(value));
    }
    return true;
  }

 private:
  static bool ReadPacked(CodecReader& reader, std::vector<T>& values) {
    CodecTag tag;
    uint64_t count;
    if (!reader.ReadTag(tag)) return false;
    if constexpr (kFloats) {
      if (!reader.ExpectTag(Codec<T>::kTag, "an array of this width")) return false;
    } else {
      uint8_t width;
      if (!reader.ReadFixed(&width, 1)) return false;
      if (width != kWidth) return reader.Fail("expected integers of " + Width(kWidth) + ", found " + Width(width));
    }
    if (!reader.ReadCount(count, sizeof(T))) return false;
    values.resize(count);
    return reader.ReadFixed(values.data(), count * sizeof(T));
  }
  static std::string Width(uint8_t width) {
    return std::to_string(8 * (width & 0x7F)) + " bits" + ((width & 0x80) != 0 ? ", unsigned" : "");
  }
};

template <typename M>
struct MapCodec {
  using Key = typename M::key_type;
  using Mapped = typename M::mapped_type;
  static void Write(const M& map, std::string& out) {
    WriteTag(CodecTag::kMap, out);
    WriteVarint(map.size(), out);
    for (const auto& [key, value] : map) {
      Codec<Key>::Write(key, out);
      Codec<Mapped>::Write(value, out);
    }
  }
  static bool Read(CodecReader& reader, M& map) {
    map.clear();
    uint64_t count;
    if (!reader.ExpectTag(CodecTag::kMap, "a map") || !reader.ReadCount(count, 2)) return false;
    for (uint64_t i = 0; i < count; ++i) {
      Key key{};
      Mapped value{};
      if (!Codec<Key>::Read(reader, key) || !Codec<Mapped>::Read(reader, value)) return false;
      if (!map.emplace(std::move(key), std::move(value)).second) return reader.Fail("a map with the same key twice");
    }
    return true;
  }
};
template <typename K, typename V>
requires HasCodec<K> && HasCodec<V>
struct Codec<std::map<K, V>> : MapCodec<std::map<K, V>> {
};
template <typename K, typename V>
requires HasCodec<K> && HasCodec<V>
struct Codec<std::unordered_map<K, V>> : MapCodec<std::unordered_map<K, V>> {
};

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// An optional of an optional could not tell which of the two is empty.
template <typename T>
requires(HasCodec<T> && !kIsOptional<T>) struct Codec<std::optional<T>> {
  static void Write(const std::optional<T>& value, std::string& out) {
    if (!value.has_value()) return WriteTag(CodecTag::kNothing, out);
    Codec<T>::Write(*value, out);
  }
  static bool Read(CodecReader& reader, std::optional<T>& value) {
    value.reset();
    if (reader.NextIs(CodecTag::kNothing)) return reader.ExpectTag(CodecTag::kNothing, "nothing");
    return Codec<T>::Read(reader, value.emplace());
  }
};

template <typename Tuple>
struct TupleCodec {
  static constexpr size_t kSize = std::tuple_size_v<Tuple>;
  static void Write(const Tuple& tuple, std::string& out) {
    WriteTag(CodecTag::kTuple, out);
    WriteVarint(kSize, out);
    std::apply([&out](const auto&... values) { (Codec<std::decay_t<decltype(values)>>::Write(values, out), ...); },
               tuple);
  }
  static bool Read(CodecReader& reader, Tuple& tuple) {
    uint64_t count;
    if (!reader.ExpectTag(CodecTag::kTuple, "a tuple") || !reader.ReadCount(count, 1)) return false;
    if (count != kSize) {
      return reader.Fail("expected " + std::to_string(kSize) + " values, found " + std::to_string(count));
    }
    return std::apply(
        [&reader](auto&... values) { return (Codec<std::decay_t<decltype(values)>>::Read(reader, values) && ...); },
        tuple);
  }
};
template <typename... Ts>
requires(HasCodec<Ts>&&...) struct Codec<std::tuple<Ts...>> : TupleCodec<std::tuple<Ts...>> {
};
template <typename A, typename B>
requires HasCodec<A> && HasCodec<B>
struct Codec<std::pair<A, B>> : TupleCodec<std::pair<A, B>> {
};

template <std::derived_from<google::protobuf::MessageLite> M>
struct Codec<M> {
  static void Write(const M& message, std::string& out) {
    WriteTag(CodecTag::kMessage, out);
    WriteBytes(message.GetTypeName(), out);
    WriteVarint(message.ByteSizeLong(), out);
    message.AppendToString(&out);
  }
  static bool Read(CodecReader& reader, M& message) {
    std::string_view name, bytes;
    if (!reader.ExpectTag(CodecTag::kMessage, "a message") || !reader.ReadBytes(name)) return false;
    if (name != message.GetTypeName()) {
      return reader.Fail("expected a " + message.GetTypeName() + ", found a " + ShownName(name));
    }
    if (!reader.ReadBytes(bytes)) return false;
    return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
           reader.Fail("a broken protobuf message");
  }
};

}  // namespace troupe::internal
