// SPDX-License-Identifier: Apache-2.0
// Which values go from one actor of a process to another as they are, and what they count for in a mailbox. All others
// are encoded, as between processes: what a struct holds beside the fields that it names must not arrive, and refs of
// objects are counted when they travel.
#pragma once

#include <google/protobuf/message_lite.h>

#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace troupe::internal {

// Has Bytes(value); not defined for values that are encoded.
template <typename T>
struct LocalValue;

template <typename T>
concept MovesLocally = requires(const T& value) {
  LocalValue<T>::Bytes(value);
};

template <typename T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) struct LocalValue<T> {
  static size_t Bytes(T) { return sizeof(T); }
};
template <>
struct LocalValue<std::string> {
  static size_t Bytes(const std::string& value) { return sizeof(value) + value.size(); }
};
template <std::derived_from<google::protobuf::MessageLite> M>
struct LocalValue<M> {
  static size_t Bytes(const M& value) { return value.ByteSizeLong(); }
};

template <typename C>
struct LocalContainer {
  static size_t Bytes(const C& values) {
    size_t bytes = sizeof(values);
    for (const auto& value : values) bytes += LocalValue<std::decay_t<decltype(value)>>::Bytes(value);
    return bytes;
  }
};
template <MovesLocally T>
struct LocalValue<std::vector<T>> {
  static size_t Bytes(const std::vector<T>& values) {
    if constexpr (std::is_arithmetic_v<T>) return sizeof(values) + values.size() * sizeof(T);
    return LocalContainer<std::vector<T>>::Bytes(values);
  }
};
template <MovesLocally T>
struct LocalValue<std::optional<T>> {
  static size_t Bytes(const std::optional<T>& value) { return value.has_value() ? LocalValue<T>::Bytes(*value) : 1; }
};
template <MovesLocally... Ts>
struct LocalValue<std::tuple<Ts...>> {
  static size_t Bytes(const std::tuple<Ts...>& values) {
    return std::apply([](const Ts&... each) { return (size_t{0} + ... + LocalValue<Ts>::Bytes(each)); }, values);
  }
};
template <MovesLocally A, MovesLocally B>
struct LocalValue<std::pair<A, B>> {
  static size_t Bytes(const std::pair<A, B>& value) {
    return LocalValue<A>::Bytes(value.first) + LocalValue<B>::Bytes(value.second);
  }
};
// The keys are constant where the map is walked.
template <typename A, MovesLocally B>
requires MovesLocally<std::remove_const_t<A>> && std::is_const_v<A>
struct LocalValue<std::pair<A, B>> {
  static size_t Bytes(const std::pair<A, B>& value) {
    return LocalValue<std::remove_const_t<A>>::Bytes(value.first) + LocalValue<B>::Bytes(value.second);
  }
};
template <MovesLocally K, MovesLocally V>
struct LocalValue<std::map<K, V>> : LocalContainer<std::map<K, V>> {};
template <MovesLocally K, MovesLocally V>
struct LocalValue<std::unordered_map<K, V>> : LocalContainer<std::unordered_map<K, V>> {};

}  // namespace troupe::internal
