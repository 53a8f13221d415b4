// SPDX-License-Identifier: Apache-2.0
// Ref<T>: the typed, copyable address of one life of an actor.
//
//   absl::StatusOr<int64_t> sum = counter.Call<&Counter::Add>(5).Get();
//   counter.WithTimeout(absl::Minutes(10)).Call<&Trainer::TrainStep>(request).Then(...);
//   absl::Status sent = log.Send<&Log::Append>("a line");                // one way
//   StreamReader<Row> rows = store.Stream<&Store::Rows>(0);              // stream.h
//
// A call runs at most once. It ends by its deadline at the latest, with the result or an error whose kind
// CallErrorKindOf(status) tells (runtime/actor/call_error.h). A ref never reaches a successor: after a restart its
// calls fail with CALL_STALE_EPOCH or CALL_DIED, and ActorDirectory or Runtime::Latest gives the new ref. Safe to use
// from any thread; calls of one thread through refs of one actor arrive in their order. A ref may be an argument or a
// result; it then works where it arrives, if its address is reachable from there.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/future.h"
#include "runtime/actor/local_call.h"
#include "runtime/actor/local_door.h"
#include "runtime/actor/stream.h"
#include "runtime/object/transit_scope.h"

namespace troupe {

namespace internal {

// A call of this process and the state of the future that answers it, in one.
template <typename Result>
class CallState final : public FutureState<Result>, public PendingCall {
 public:
  CallState(std::shared_ptr<CallRouter> router, SharedAddress target, bool needs_turn)
      : router_(std::move(router)), target_(std::move(target)), needs_turn_(needs_turn) {
    this->SetCall(this);
  }

  const std::shared_ptr<CallRouter>& router() const { return router_; }
  void SetId(uint64_t id) { id_.store(id, std::memory_order_release); }
  void Cancel() override {
    if (uint64_t id = id_.load(std::memory_order_acquire); id != 0) router_->Cancel(id);
  }
  const ActorLife* waited_for() const override { return needs_turn_ ? &target_->life : nullptr; }
  uint64_t number() const override { return id_.load(std::memory_order_acquire); }
  void WaitReading(FutureBase& future, Monotonic deadline) override {
    if (uint64_t id = id_.load(std::memory_order_acquire); id != 0) router_->WaitReading(id, future, deadline);
  }

 private:
  const std::shared_ptr<CallRouter> router_;
  const SharedAddress target_;
  const bool needs_turn_;
  std::atomic<uint64_t> id_{0};
};

}  // namespace internal

template <typename T>
class Ref {
 public:
  // Names nobody; calls fail with CALL_UNAVAILABLE.
  Ref() = default;
  Ref(ActorAddress address, std::shared_ptr<CallRouter> router)
      : Ref(router == nullptr ? ActorPlace{std::make_shared<const ActorAddress>(std::move(address))}
                              : router->Locate(std::move(address)),
            router) {}
  Ref(ActorPlace place, std::shared_ptr<CallRouter> router)
      : address_(std::move(place.address)), router_(std::move(router)) {
    if (place.door != nullptr && place.door->actor_class == internal::ClassTag<T>()) door_ = place.door;
  }

  bool valid() const { return router_ != nullptr; }
  const ActorAddress& address() const { return *address_; }
  const ActorLife& life() const { return address_->life; }
  const std::shared_ptr<CallRouter>& router() const { return router_; }

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
    static_assert(!internal::StreamItem<typename Traits::Returns>::kIsStream, "the method yields a stream: use Stream");
    constexpr bool kNeedsTurn = !internal::kIsFuture<typename Traits::Returns> &&
                                !TroupeReentrant(static_cast<const T*>(nullptr), internal::MethodTag<kMethod>{});
    if (router_ == nullptr) return Future<Result>::Of(Nobody());
    if constexpr (internal::kGoesLocally<Traits>) {
      if (door_ != nullptr) return CallLocally<kMethod>(std::forward<Args>(args)...);
    }
    using State = internal::CallState<typename Future<Result>::Result>;
    auto state = MakePooled<State>(router_, address_, kNeedsTurn);
    Promise<Result> promise(state);
    Future<Result> future = promise.TakeFuture();
    TransitScope scope;  // The objects in the arguments are kept until the reply: they have arrived then.
    OutgoingCall call = Outgoing<kMethod>(timeout_.value_or(kCallTimeoutDefault), std::forward<Args>(args)...);
    call.retries = TroupeRetries(static_cast<const T*>(nullptr), internal::MethodTag<kMethod>{});
    call.reply = [promise = std::move(promise), raw = state.get(),
                  kept = scope.Take()](const absl::StatusOr<std::string>& reply) {
      promise.Set(internal::DecodeResult<Result>(reply, raw->router()));
    };
    state->SetId(router_->Call(*address_, std::move(call)));
    return future;
  }

  // One way: OK when it was accepted for delivery; nothing is told of what becomes of it then. RESOURCE_EXHAUSTED: the
  // mailbox, or the queue to the other process, is full. In order with the calls of this thread.
  template <auto kMethod, typename... Args>
  absl::Status Send(Args&&... args) const {
    static_assert(!internal::StreamItem<typename internal::MethodTraits<decltype(kMethod)>::Returns>::kIsStream,
                  "the method yields a stream: use Stream");
    if (router_ == nullptr) return Nobody();
    using Traits = internal::MethodTraits<decltype(kMethod)>;
    static_assert(Traits::template kTakes<Args...>, "these are not the arguments of the method");
    if constexpr (internal::kGoesLocally<Traits>) {
      if (door_ != nullptr) {
        using Note = internal::LocalNote<T, kMethod>;
        absl::Status sent =
            Note::Deliver(std::make_unique<Note>(DeadlineIn(kCallTimeoutDefault), std::forward<Args>(args)...), *door_);
        return sent.ok() ? sent : NotTaken<kMethod>(sent);
      }
    }
    OutgoingCall call = Outgoing<kMethod>(kCallTimeoutDefault, std::forward<Args>(args)...);
    return router_->Send(*address_, std::move(call.method), std::move(call.arguments));
  }

  // Calls a method that yields a stream; the timeout is that of the whole stream (an hour, unless WithTimeout).
  template <auto kMethod, typename... Args>
  auto Stream(Args&&... args) const -> StreamReader<
      typename internal::StreamItem<typename internal::MethodTraits<decltype(kMethod)>::Returns>::type> {
    return StreamWithin<kMethod>(StreamWindow(), std::forward<Args>(args)...);
  }
  // The same with another bound on what is produced ahead.
  template <auto kMethod, typename... Args>
  auto StreamWithin(StreamWindow window, Args&&... args) const -> StreamReader<
      typename internal::StreamItem<typename internal::MethodTraits<decltype(kMethod)>::Returns>::type> {
    using Item = typename internal::StreamItem<typename internal::MethodTraits<decltype(kMethod)>::Returns>::type;
    window = window.Bounded();
    auto buffer = std::make_shared<internal::StreamBuffer<Item>>(router_, window);
    if (router_ == nullptr) {
      buffer->End(Nobody());
      return StreamReader<Item>(std::move(buffer));
    }
    TransitScope scope;
    OutgoingCall call = Outgoing<kMethod>(timeout_.value_or(kStreamTimeoutDefault), std::forward<Args>(args)...);
    call.window = window;
    call.item = [buffer](std::string item) { buffer->Push(std::move(item)); };
    call.reply = [buffer, kept = scope.Take()](const absl::StatusOr<std::string>& reply) {
      buffer->End(reply.status());
    };
    buffer->SetCall(router_->Call(*address_, std::move(call)));
    return StreamReader<Item>(std::move(buffer));
  }

  friend bool operator==(const Ref& a, const Ref& b) { return a.address() == b.address(); }

 private:
  template <auto kMethod, typename... Args>
  auto CallLocally(Args&&... args) const -> Future<typename internal::MethodTraits<decltype(kMethod)>::Result> {
    using Traits = internal::MethodTraits<decltype(kMethod)>;
    static_assert(Traits::template kTakes<Args...>, "these are not the arguments of the method");
    absl::Duration timeout = std::min(timeout_.value_or(kCallTimeoutDefault), kCallTimeoutMax);
    auto call = MakePooled<internal::LocalCall<T, kMethod>>(std::shared_ptr<const internal::LocalDoor>(address_, door_),
                                                            DeadlineIn(timeout), std::forward<Args>(args)...);
    if (absl::Status taken = call->Deliver(*door_); !taken.ok()) call->Set(NotTaken<kMethod>(taken));
    return Future<typename Traits::Result>::OfState(std::move(call));
  }

  // The error of a call that the mailbox did not take. One that is closed stays so: the router knows why.
  template <auto kMethod>
  absl::Status NotTaken(const absl::Status& why) const {
    if (!absl::IsUnavailable(why)) return door_->NotTaken(why);
    absl::Status said = router_->Send(*address_, internal::WireName<T, kMethod>(), "");
    return said.ok() ? CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, life().ToString() + " has ended") : said;
  }

  static absl::Status Nobody() { return CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "the ref names no actor"); }

  template <auto kMethod, typename... Args>
  static OutgoingCall Outgoing(absl::Duration timeout, Args&&... args) {
    using Traits = internal::MethodTraits<decltype(kMethod)>;
    static_assert(Traits::template kTakes<Args...>, "these are not the arguments of the method");
    OutgoingCall call;
    call.method = internal::WireName<T, kMethod>();
    constexpr typename Traits::Arguments* kAs = nullptr;
    call.arguments = internal::EncodeTuple(kAs, std::forward<Args>(args)...);
    call.timeout = timeout;
    return call;
  }

  // Shared, so that making a ref costs nothing.
  static const SharedAddress& NoAddress() {
    static const SharedAddress none = std::make_shared<const ActorAddress>();
    return none;
  }

  SharedAddress address_ = NoAddress();
  internal::LocalDoor* door_ = nullptr;  // Part of the address, or null.
  std::shared_ptr<CallRouter> router_;
  std::optional<absl::Duration> timeout_;
};

namespace internal {

// A ref travels as the class's name, the life and the endpoint.
template <typename T>
struct Codec<Ref<T>> {
  static void Write(const Ref<T>& ref, std::string& out) {
    WriteTag(CodecTag::kRef, out);
    WriteBytes(ClassName<T>(), out);
    WriteBytes(ref.valid() ? ref.life().ToString() : "", out);
    WriteBytes(ref.address().endpoint, out);
  }
  static bool Read(CodecReader& reader, Ref<T>& ref) {
    std::string_view name, life, endpoint;
    if (!reader.ExpectTag(CodecTag::kRef, "a ref") || !reader.ReadBytes(name)) return false;
    if (name != ClassName<T>()) {
      return reader.Fail("expected a ref of a " + ClassName<T>() + ", found one of a " + ShownName(name));
    }
    if (!reader.ReadBytes(life) || !reader.ReadBytes(endpoint)) return false;
    ref = Ref<T>();
    if (life.empty()) return true;
    absl::StatusOr<ActorLife> parsed = ActorLife::Parse(life);
    if (!parsed.ok()) return reader.Fail("a ref whose life cannot be read");
    if (reader.router() == nullptr) return reader.Fail("a ref where no calls can be made");
    ref = Ref<T>({*std::move(parsed), std::string(endpoint)}, reader.router());
    return true;
  }
};

}  // namespace internal
}  // namespace troupe
