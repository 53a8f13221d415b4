// SPDX-License-Identifier: Apache-2.0
// What the types of a method say: its arguments, its result on the wire, and how an encoded call of it is run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/call_error.h"
#include "runtime/actor/codec.h"
#include "runtime/actor/exception_status.h"
#include "runtime/actor/future.h"
#include "runtime/actor/strand.h"
#include "runtime/actor/stream.h"
#include "runtime/actor/task.h"
#include "runtime/base/callback.h"
#include "runtime/base/status.h"

namespace troupe {

class Actor;

namespace internal {

// Takes the encoded result once; from any thread. Empty for one-way messages.
using MethodReply = Callback<void(absl::StatusOr<std::string>)>;

struct Invocation {
  std::string arguments;
  MethodReply reply;
  std::shared_ptr<StreamSink> sink;  // Null unless the caller asked for a stream.

  void Reply(absl::StatusOr<std::string> result) const {
    if (reply) reply(std::move(result));
  }
};
// In the actor's turn, with its strand as the current one.
using MethodInvoker = void (*)(Actor& actor, Invocation call);

// Names a method in the options below.
template <auto kMethod>
struct MethodTag {};

// What TROUPE_REENTRANT says of a method, found beside its class.
template <typename Class, auto kMethod>
constexpr bool TroupeReentrant(const Class*, MethodTag<kMethod>) {
  return false;
}

// R of R, absl::StatusOr<R>, Future<R> and Task of either; void of absl::Status and Stream<T>.
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

template <typename T>
struct WireResult<Task<T>> : WireResult<T> {};
template <typename T>
struct WireResult<Stream<T>> {
  using type = void;
};

template <typename T>
inline constexpr bool kIsFuture = false;
template <typename T>
inline constexpr bool kIsFuture<Future<T>> = true;
template <typename T>
inline constexpr bool kIsTask = false;
template <typename T>
inline constexpr bool kIsTask<Task<T>> = true;
template <typename T>
struct StreamItem {
  static constexpr bool kIsStream = false;
};
template <typename T>
struct StreamItem<Stream<T>> {
  static_assert(HasCodec<T>, "an item of this type cannot travel (codec.h)");
  static constexpr bool kIsStream = true;
  using type = T;
};

// What TROUPE_RETRY says of a method.
template <typename Class, auto kMethod>
constexpr int TroupeRetries(const Class*, MethodTag<kMethod>) {
  return 0;
}

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
struct MethodTraits<R (C::*)(Args...)> : MethodShape<R, Args...> {
  using Class = C;
};
template <typename R, typename C, typename... Args>
struct MethodTraits<R (C::*)(Args...) const> : MethodShape<R, Args...> {
  using Class = C;
};
template <typename R, typename C, typename... Args>
struct MethodTraits<R (C::*)(Args...) noexcept> : MethodShape<R, Args...> {
  using Class = C;
};
template <typename R, typename C, typename... Args>
struct MethodTraits<R (C::*)(Args...) const noexcept> : MethodShape<R, Args...> {
  using Class = C;
};

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
typename Future<R>::Result DecodeResult(const absl::StatusOr<std::string>& bytes,
                                        const std::shared_ptr<CallRouter>& router) {
  if (!bytes.ok()) return bytes.status();
  if constexpr (std::is_void_v<R>) {
    auto value = Decode<std::tuple<>>(*bytes);
    return value.ok() ? absl::OkStatus() : BadResult(value.status());
  } else {
    auto value = Decode<R>(*bytes, router);
    if (!value.ok()) return BadResult(value.status());
    return value;
  }
}

// Runs a Task or a Stream to its end. Holds the arguments, so that references to them stay good.
template <typename Class, auto kMethod>
struct OpenHandler : std::enable_shared_from_this<OpenHandler<Class, kMethod>> {
  using Traits = MethodTraits<decltype(kMethod)>;
  using Returns = typename Traits::Returns;
  static constexpr bool kReentrant = TroupeReentrant(static_cast<const Class*>(nullptr), MethodTag<kMethod>{});

  explicit OpenHandler(typename Traits::Arguments values) : arguments(std::move(values)) {}

  // `reply` takes what the body returned.
  template <typename Reply>
  void Run(Class& actor, std::shared_ptr<StreamSink> sink, const Reply& reply) {
    body.emplace(std::apply([&](auto&... args) { return (actor.*kMethod)(std::move(args)...); }, arguments));
    Strand* strand = Strand::Current();
    strand->Opened(kReentrant);
    auto done = [self = this->shared_from_this(), strand, reply](auto result) {
      reply(std::move(result));
      strand->Closed(kReentrant);
    };
    if constexpr (kIsTask<Returns>) {
      body->Start(kReentrant, std::move(done));
    } else {
      body->Start(kReentrant, std::move(sink), std::move(done));
    }
  }

  typename Traits::Arguments arguments;
  std::optional<Returns> body;  // Goes before the arguments.
};

inline absl::Status WrongWay(bool is_stream) {
  return CallErrorStatus(v1::CallError::CALL_MALFORMED,
                         is_stream ? "the method yields a stream: use Ref::Stream" : "the method yields no stream");
}

// Decodes, calls, encodes. An exception of the handler becomes its status.
template <typename Class, auto kMethod>
void InvokeMethod(Actor& base, Invocation call) {
  using Traits = MethodTraits<decltype(kMethod)>;
  using Returns = typename Traits::Returns;
  constexpr bool kIsStream = StreamItem<Returns>::kIsStream;
  if (kIsStream != (call.sink != nullptr)) return call.Reply(WrongWay(kIsStream));
  Strand* strand = Strand::Current();
  auto values = Decode<typename Traits::Arguments>(call.arguments, strand == nullptr ? nullptr : strand->router());
  if (!values.ok()) {
    return call.Reply(CallErrorStatus(v1::CallError::CALL_MALFORMED, "the arguments: " + MessageOf(values.status())));
  }
  Class& actor = static_cast<Class&>(base);
  auto run = [&]() -> Returns {
    return std::apply([&](auto&... args) -> Returns { return (actor.*kMethod)(std::move(args)...); }, *values);
  };
  try {
    if constexpr (kIsTask<Returns> || kIsStream) {
      std::make_shared<OpenHandler<Class, kMethod>>(*std::move(values))
          ->Run(actor, std::move(call.sink), [reply = call.reply](const auto& result) {
            if (reply) reply(EncodeResult(result));
          });
    } else if constexpr (kIsFuture<Returns>) {
      run().Then([call](auto result) { call.Reply(EncodeResult(result)); });
    } else if constexpr (std::is_void_v<Returns>) {
      run();
      call.Reply(EncodeResult(absl::OkStatus()));
    } else if constexpr (std::is_same_v<Returns, absl::Status> ||
                         !std::is_same_v<Returns, typename WireResult<Returns>::type>) {
      call.Reply(EncodeResult(run()));
    } else {
      call.Reply(Encode(run()));
    }
  } catch (...) {
    absl::Status error = ExceptionStatus("the method");
    if (strand != nullptr) strand->Threw(error);
    call.Reply(error);
  }
}

}  // namespace internal
}  // namespace troupe
