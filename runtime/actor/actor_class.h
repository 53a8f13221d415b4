// SPDX-License-Identifier: Apache-2.0
// ActorClass: what the process knows of a class of actors (its name, how to make one, how to call its methods).
// ActorRegistry: the classes of this binary. No code comes over the wire: only what is registered can be spawned.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/codec.h"
#include "runtime/actor/method.h"

namespace troupe {

class Actor;
class ActorContext;

struct ActorMethod {
  std::string name;  // "Class.Method": as on the wire.
  internal::MethodInvoker invoke = nullptr;
};

struct ActorClass {
  std::string name;
  std::vector<ActorMethod> methods;
  // From an encoded tuple of the constructor's arguments; refs in it call through `router`, which may be null.
  // INVALID_ARGUMENT: others are expected; INTERNAL: the constructor threw (its text).
  absl::StatusOr<std::unique_ptr<Actor>> (*construct)(std::string_view arguments,
                                                      const std::shared_ptr<CallRouter>& router) = nullptr;
  // internal::ClassTag of it.
  const void* tag = nullptr;
  // It has an OnStart of its own; another is ready once it was constructed.
  bool has_on_start = true;

  // Null when there is none. `name` is the full one.
  const ActorMethod* FindMethod(std::string_view name) const;
};

class ActorRegistry {
 public:
  static ActorRegistry& Global();

  // The first of a name counts (a header-only class registers once in each file).
  bool Add(ActorClass actor_class);
  // NOT_FOUND names the classes that there are.
  absl::StatusOr<const ActorClass*> Find(std::string_view name) const;
  std::vector<std::string> Names() const;

  // Makes an actor from a JSON array of constructor arguments ("" is "[]"), as a job file gives them.
  absl::StatusOr<std::unique_ptr<Actor>> ConstructFromJson(std::string_view name,
                                                           std::string_view arguments_json) const;

 private:
  std::vector<std::unique_ptr<ActorClass>> classes_;  // Filled before main, not changed later.
};

namespace internal {

template <typename... Ts>
struct InitTypes {};

// A method and its name, at compile time.
template <auto kMethod>
struct Method {
  static constexpr auto kPointer = kMethod;
  std::string_view name;
};

template <typename Class, typename... Methods>
struct ActorDescription {
  std::string_view class_name;
  std::tuple<Methods...> methods;
};

template <typename Class, typename... Methods>
constexpr ActorDescription<Class, Methods...> DescribeActor(std::string_view name, std::tuple<Methods...> methods) {
  return {name, methods};
}

template <typename Class>
concept DescribedActor = requires(const Class* actor) {
  TroupeDescribeActor(actor);
};

// "Class.Method" of a listed method; a compile error for one that is not listed.
template <typename Class, auto kMethod>
const std::string& WireName() {
  static const std::string name = [] {
    constexpr auto kDescription = TroupeDescribeActor(static_cast<const Class*>(nullptr));
    return std::apply(
        [&](const auto&... methods) {
          constexpr int kFound =
              (0 + ... + static_cast<int>(std::is_same_v<std::decay_t<decltype(methods)>, Method<kMethod>>));
          static_assert(kFound == 1, "the method is not listed in TROUPE_METHODS of its class");
          std::string_view found;
          ((std::is_same_v<std::decay_t<decltype(methods)>, Method<kMethod>> ? void(found = methods.name) : void()),
           ...);
          return std::string(kDescription.class_name) + "." + std::string(found);
        },
        kDescription.methods);
  }();
  return name;
}

// String literals travel as strings.
template <typename T>
using InitArgument = std::conditional_t<std::is_convertible_v<T, std::string>, std::string, std::decay_t<T>>;

template <typename Class>
const std::string& ClassName() {
  static const std::string name(TroupeDescribeActor(static_cast<const Class*>(nullptr)).class_name);
  return name;
}

// Names the class within the process. (Not over the borders of shared libraries, where calls are encoded then.)
template <typename Class>
const void* ClassTag() {
  return &ClassName<Class>();
}

// Its OnStart is that of Actor. (One that is overloaded or not accessible is taken for its own.)
template <typename Class>
concept StartsAtOnce = std::is_same_v<decltype(&Class::OnStart), absl::Status (Actor::*)(ActorContext&)>;

// The constructor's arguments as given, encoded; the class checks them when it is made (its TROUPE_INIT may stand in
// another file).
template <typename Class, typename... Args>
std::string EncodeInit(Args&&... args) {
  static_assert(std::is_constructible_v<Class, Args...>, "the class has no such constructor");
  return Encode(std::tuple<InitArgument<Args>...>(std::forward<Args>(args)...));
}

template <typename Class, typename... Ts>
absl::StatusOr<std::unique_ptr<Actor>> ConstructActor(std::string_view arguments,
                                                      const std::shared_ptr<CallRouter>& router) {
  TROUPE_ASSIGN_OR_RETURN(auto values, (Decode<std::tuple<Ts...>>(arguments, router)));
  try {
    return std::apply([](Ts&... args) { return std::unique_ptr<Actor>(std::make_unique<Class>(std::move(args)...)); },
                      values);
  } catch (...) {
    return ExceptionStatus("the constructor");
  }
}

// Adds the class to the registry; called while static objects are made.
template <typename Class, typename... Ts>
bool RegisterActor(const InitTypes<Ts...>*) {
  static_assert((Encodable<std::decay_t<Ts>> && ...), "a constructor argument of this type cannot travel (codec.h)");
  constexpr auto kDescription = TroupeDescribeActor(static_cast<const Class*>(nullptr));
  ActorClass actor_class;
  actor_class.name = std::string(kDescription.class_name);
  actor_class.construct = &ConstructActor<Class, std::decay_t<Ts>...>;
  actor_class.tag = ClassTag<Class>();
  actor_class.has_on_start = !StartsAtOnce<Class>;
  std::apply(
      [&](const auto&... methods) {
        (actor_class.methods.push_back({actor_class.name + "." + std::string(methods.name),
                                        &InvokeMethod<Class, std::decay_t<decltype(methods)>::kPointer>}),
         ...);
      },
      kDescription.methods);
  return ActorRegistry::Global().Add(std::move(actor_class));
}

}  // namespace internal
}  // namespace troupe
