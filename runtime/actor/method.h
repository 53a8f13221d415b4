// SPDX-License-Identifier: Apache-2.0
// What the types of a method say: its arguments, its result on the wire, and how an encoded call of it is run.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/call_error.h"
#include "runtime/actor/codec.h"
#include "runtime/actor/future.h"
#include "runtime/base/status.h"

namespace troupe {

class Actor;

namespace internal {

// Takes the encoded result once; from any thread.
using MethodReply = std::function<void(absl::StatusOr<std::string>)>;
using MethodInvoker = void (*)(Actor& actor, std::string_view arguments, MethodReply reply);

// INTERNAL with the text of the exception that is being handled. Call it inside a catch block.
absl::Status ExceptionStatus(std::string_view where);

// R of R, absl::StatusOr<R> and Future<R>; void of absl::Status.
template <typename T>
struct WireResult {
  using type = T;
};
template <>
struct WireResult<absl::Status> {
  using type = void;
};
template <typename T>
struct WireResult<absl::StatusOr<T>> {
  using type = T;
};
template <typename T>
struct WireResult<Future<T>> {
  using type = T;
};

template <typename Returned, typename... Args>
struct MethodShape {
  using Result = typename WireResult<std::decay_t<Returned>>::type;
  using Returns = std::decay_t<Returned>;
  using Arguments = std::tuple<std::decay_t<Args>...>;
  static constexpr bool kAcceptable =
      ((!std::is_lvalue_reference_v<Args> || std::is_const_v<std::remove_reference_t<Args>>)&&...);
  static_assert(kAcceptable, "a method takes its arguments by value or by const reference");
  static_assert((Encodable<std::decay_t<Args>> && ...), "an argument of this type cannot travel (codec.h)");
  template <typename... Given>
  static constexpr bool kTakes = sizeof...(Given) == sizeof...(Args) &&
                                 (std::is_convertible_v<Given, std::decay_t<Args>> && ...);
  static_assert(std::is_void_v<Result> || Encodable<std::conditional_t<std::is_void_v<Result>, bool, Result>>,
                "a result of this type cannot travel (codec.h)");
};

template <typename Pointer>
struct MethodTraits;
template <typename R, typename C, typename... Args>
struct MethodTraits<R (C::*)(Args...)> : MethodShape<R, Args...> {};
template <typename R, typename C, typename... Args>
struct MethodTraits<R (C::*)(Args...) const> : MethodShape<R, Args...> {};
template <typename R, typename C, typename... Args>
struct MethodTraits<R (C::*)(Args...) noexcept> : MethodShape<R, Args...> {};
template <typename R, typename C, typename... Args>
struct MethodTraits<R (C::*)(Args...) const noexcept> : MethodShape<R, Args...> {};

// The wire form of what a method returned. An empty tuple stands for void.
inline absl::StatusOr<std::string> EncodeResult(const absl::Status& status) {
  if (!status.ok()) return HandlerStatus(status);
  return Encode(std::tuple<>());
}
template <typename R>
absl::StatusOr<std::string> EncodeResult(const absl::StatusOr<R>& result) {
  if (!result.ok()) return HandlerStatus(result.status());
  return Encode(*result);
}

inline absl::Status BadResult(const absl::Status& status) {
  return CallErrorStatus(v1::CallError::CALL_MALFORMED, "the result: " + MessageOf(status));
}

template <typename R>
typename Future<R>::Result DecodeResult(const absl::StatusOr<std::string>& bytes) {
  if (!bytes.ok()) return bytes.status();
  if constexpr (std::is_void_v<R>) {
    auto value = Decode<std::tuple<>>(*bytes);
    return value.ok() ? absl::OkStatus() : BadResult(value.status());
  } else {
    auto value = Decode<R>(*bytes);
    if (!value.ok()) return BadResult(value.status());
    return value;
  }
}

template <typename T>
inline constexpr bool kIsFuture = false;
template <typename T>
inline constexpr bool kIsFuture<Future<T>> = true;

// Decodes, calls, encodes. An exception of the handler becomes its status.
template <typename Class, auto kMethod>
void InvokeMethod(Actor& actor, std::string_view arguments, MethodReply reply) {
  using Traits = MethodTraits<decltype(kMethod)>;
  using Returns = typename Traits::Returns;
  auto values = Decode<typename Traits::Arguments>(arguments);
  if (!values.ok()) {
    return reply(CallErrorStatus(v1::CallError::CALL_MALFORMED, "the arguments: " + MessageOf(values.status())));
  }
  auto call = [&]() -> Returns {
    return std::apply(
        [&](auto&... args) -> Returns { return (static_cast<Class&>(actor).*kMethod)(std::move(args)...); }, *values);
  };
  try {
    if constexpr (kIsFuture<Returns>) {
      call().Then([reply = std::move(reply)](auto result) { reply(EncodeResult(result)); });
    } else if constexpr (std::is_void_v<Returns>) {
      call();
      reply(EncodeResult(absl::OkStatus()));
    } else if constexpr (std::is_same_v<Returns, absl::Status> ||
                         !std::is_same_v<Returns, typename WireResult<Returns>::type>) {
      reply(EncodeResult(call()));
    } else {
      reply(Encode(call()));
    }
  } catch (...) {
    reply(ExceptionStatus("the method"));
  }
}

}  // namespace internal
}  // namespace troupe
