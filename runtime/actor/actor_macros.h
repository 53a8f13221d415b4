// SPDX-License-Identifier: Apache-2.0
// TROUPE_ACTOR and its parts: they give a class its name in the registry and its methods their names on the wire.
//
//   TROUPE_ACTOR(Class, TROUPE_METHODS(A, B), TROUPE_INIT(int64_t, std::string));
//     after the class, in its namespace. TROUPE_INIT lists the constructor's arguments. In a program of one file this
//     is all. Where a class is split into a header and a source file:
//   TROUPE_ACTOR_INTERFACE(Class, TROUPE_METHODS(A, B));   in the header: what callers need
//   TROUPE_ACTOR_REGISTER(Class, TROUPE_INIT(...));        in the source file: what makes it spawnable
//     Its library needs alwayslink = True, or the linker drops it.
//
// Before the above:
//   TROUPE_RETRY(Class, Save, 3);     a call is sent again up to 3 times when the connection broke; it has one effect,
//                                     whatever is lost, and never reaches another life of the actor
//   TROUPE_REENTRANT(Class, Fetch);   while this Task or Stream awaits, other messages are taken
//
// Up to 64 methods. Overloaded methods cannot be listed. Class names are unique in a program.
#pragma once

#include "runtime/actor/actor_class.h"
#include "runtime/actor/for_each.h"

#define TROUPE_ACTOR(Class, Methods, ...) \
  TROUPE_ACTOR_INTERFACE(Class, Methods); \
  TROUPE_ACTOR_REGISTER(Class, __VA_ARGS__)

#define TROUPE_ACTOR_INTERFACE(Class, ...)                                     \
  [[maybe_unused]] inline constexpr auto TroupeDescribeActor(const Class*) {   \
    using TroupeSelf = Class;                                                  \
    return ::troupe::internal::DescribeActor<TroupeSelf>(#Class, __VA_ARGS__); \
  }                                                                            \
  static_assert(true, "a semicolon follows")

#define TROUPE_ACTOR_REGISTER(Class, ...)                                                 \
  [[maybe_unused]] inline const bool kTroupeRegistered##Class =                           \
      ::troupe::internal::RegisterActor<Class>(static_cast<const __VA_ARGS__*>(nullptr)); \
  static_assert(true, "a semicolon follows")

#define TROUPE_REENTRANT(Class, Name)                                                                                 \
  [[maybe_unused]] inline constexpr bool TroupeReentrant(const Class*, ::troupe::internal::MethodTag<&Class::Name>) { \
    return true;                                                                                                      \
  }                                                                                                                   \
  static_assert(true, "a semicolon follows")

#define TROUPE_RETRY(Class, Name, Times)                                                                           \
  [[maybe_unused]] inline constexpr int TroupeRetries(const Class*, ::troupe::internal::MethodTag<&Class::Name>) { \
    return Times;                                                                                                  \
  }                                                                                                                \
  static_assert(Times > 0, "a number of retries")

#define TROUPE_METHODS(...) ::std::tuple(TROUPE_FOR_EACH_(TROUPE_METHOD_, __VA_ARGS__))
#define TROUPE_INIT(...) ::troupe::internal::InitTypes<__VA_ARGS__>

#define TROUPE_METHOD_(Name) \
  ::troupe::internal::Method<&TroupeSelf::Name> { #Name }
