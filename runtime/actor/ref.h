// SPDX-License-Identifier: Apache-2.0
// Ref<T>: the typed, copyable address of one life of an actor.
//
//   absl::StatusOr<int64_t> sum = counter.Call<&Counter::Add>(5).Get();
//   counter.WithTimeout(absl::Minutes(10)).Call<&Trainer::TrainStep>(request).Then(...);
//
// A call runs at most once. It ends by its deadline at the latest, with the result or an error whose kind
// CallErrorKindOf(status) tells (runtime/actor/call_error.h). A ref never reaches a successor: after a restart its
// calls fail with CALL_STALE_EPOCH or CALL_DIED, and ActorDirectory gives the new ref. Safe to use from any thread;
// calls of one thread through refs of one actor arrive in their order.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/future.h"

namespace troupe {

template <typename T>
class Ref {
 public:
  // Names nobody; calls fail with CALL_UNAVAILABLE.
  Ref() = default;
  Ref(ActorAddress address, std::shared_ptr<CallRouter> router)
      : address_(std::move(address)), router_(std::move(router)) {}

  bool valid() const { return router_ != nullptr; }
  const ActorAddress& address() const { return address_; }
  const ActorLife& life() const { return address_.life; }

  // The same actor with another time limit for its calls.
  Ref WithTimeout(absl::Duration timeout) const {
    Ref ref = *this;
    ref.timeout_ = timeout;
    return ref;
  }

  // Sends the call and returns at once. The arguments are those of the method, or convert to them.
  template <auto kMethod, typename... Args>
  auto Call(Args&&... args) const -> Future<typename internal::MethodTraits<decltype(kMethod)>::Result> {
    using Traits = internal::MethodTraits<decltype(kMethod)>;
    using Result = typename Traits::Result;
    static_assert(Traits::template kTakes<Args...>, "these are not the arguments of the method");
    Promise<Result> promise;
    Future<Result> future = promise.TakeFuture();
    if (router_ == nullptr) {
      promise.Set(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "the ref names no actor"));
      return future;
    }
    router_->Call(address_, internal::WireName<T, kMethod>(),
                  Encode(typename Traits::Arguments(std::forward<Args>(args)...)), timeout_,
                  [promise = std::move(promise)](const absl::StatusOr<std::string>& reply) {
                    promise.Set(internal::DecodeResult<Result>(reply));
                  });
    return future;
  }

 private:
  ActorAddress address_;
  std::shared_ptr<CallRouter> router_;
  absl::Duration timeout_ = kCallTimeoutDefault;
};

}  // namespace troupe
