// SPDX-License-Identifier: Apache-2.0
// LocalCall and LocalNote: a call and a one-way message to an actor of this process, which go into its mailbox as they
// are: the arguments are moved, and a call is its message, its future's state and its answer in one. Internal to ref.h.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/actor/executor.h"
#include "runtime/actor/local_door.h"
#include "runtime/actor/local_value.h"
#include "runtime/actor/method.h"
#include "runtime/base/small_pool.h"

namespace troupe::internal {

// Of a method whose calls need no encoding within a process. (One that returns a Future has an answer that does not
// come in its actor's turn, and one that yields a stream many: they go through the router.)
template <typename Traits>
inline constexpr bool kGoesLocally = [] {
  using Result = std::conditional_t<std::is_void_v<typename Traits::Result>, bool, typename Traits::Result>;
  return MovesLocally<typename Traits::Arguments> && MovesLocally<Result> && !kIsFuture<typename Traits::Returns> &&
         !StreamItem<typename Traits::Returns>::kIsStream;
}();

inline absl::Status LateStatus(const std::string& method) {
  return CallErrorStatus(v1::CallError::CALL_DEADLINE, method + " waited past its deadline and did not run");
}

// The result of a method as its future has it: errors are the handler's own.
template <typename Result, typename R>
Result LocalResult(R&& result) {
  if constexpr (std::is_same_v<std::decay_t<R>, absl::Status>) {
    if (!result.ok()) return HandlerStatus(result);
    return absl::OkStatus();
  } else if constexpr (std::is_same_v<std::decay_t<R>, Result>) {
    if (!result.ok()) return HandlerStatus(result.status());
    return std::forward<R>(result);
  } else {
    return Result(std::forward<R>(result));
  }
}

// Runs a method in its actor's turn; `reply` takes what it returned (a status, if that is nothing), now or when a task
// has ended.
template <typename Class, auto kMethod, typename Reply>
void RunLocally(Actor& base, Strand& strand, typename MethodTraits<decltype(kMethod)>::Arguments arguments,
                const Reply& reply) {
  using Returns = typename MethodTraits<decltype(kMethod)>::Returns;
  Class& actor = static_cast<Class&>(base);
  auto run = [&]() -> Returns {
    return std::apply([&](auto&... args) -> Returns { return (actor.*kMethod)(std::move(args)...); }, arguments);
  };
  try {
    if constexpr (kIsTask<Returns>) {
      std::make_shared<OpenHandler<Class, kMethod>>(std::move(arguments))->Run(actor, nullptr, reply);
    } else if constexpr (std::is_void_v<Returns>) {
      run();
      reply(absl::OkStatus());
    } else {
      reply(run());
    }
  } catch (...) {
    absl::Status error = ExceptionStatus("the method");
    strand.Threw(error);
    reply(std::move(error));
  }
}

template <typename Class, auto kMethod>
class LocalCall final : public FutureState<typename Future<typename MethodTraits<decltype(kMethod)>::Result>::Result>,
                        public FoundCall,
                        public Message,
                        public std::enable_shared_from_this<LocalCall<Class, kMethod>> {
 public:
  using Traits = MethodTraits<decltype(kMethod)>;
  using Result = typename Future<typename Traits::Result>::Result;
  static constexpr bool kReentrant = TroupeReentrant(static_cast<const Class*>(nullptr), MethodTag<kMethod>{});

  template <typename... Args>
  LocalCall(std::shared_ptr<const LocalDoor> door, Monotonic deadline, Args&&... args)
      : door_(std::move(door)), deadline_(deadline), arguments_(std::in_place, std::forward<Args>(args)...) {
    this->SetCall(this);
  }
  ~LocalCall() override {
    if (number_ != 0) door_->calls->Forget(number_);
  }

  // Into the mailbox; errors as of Mailbox::Push.
  absl::Status Deliver(LocalDoor& door) {
    self_ = this->shared_from_this();
    absl::Status pushed = door.Push(this, LocalValue<typename Traits::Arguments>::Bytes(*arguments_));
    if (!pushed.ok()) self_ = nullptr;
    return pushed;
  }

  // Message. The actor's hold on it ends with each of them.
  void Run(Actor& actor, Strand& strand) override {
    std::shared_ptr<LocalCall> self = std::move(self_);
    if (this->IsSet()) return;  // It was cancelled, or its deadline is over.
    if (strand.executor().Passed(deadline_)) return this->Set(LateStatus(WireName<Class, kMethod>()));
    typename Traits::Arguments arguments = *std::move(arguments_);
    arguments_.reset();
    RunLocally<Class, kMethod>(actor, strand, std::move(arguments), [self = std::move(self)](auto&& result) {
      self->Set(LocalResult<Result>(std::forward<decltype(result)>(result)));
    });
  }
  void Refuse(const ActorLife& life) override {
    std::shared_ptr<LocalCall> self = std::move(self_);
    this->Set(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE,
                              life.ToString() + " stopped before it ran " + WireName<Class, kMethod>()));
  }
  void Drop() override { self_ = nullptr; }

  // PendingCall.
  void Cancel() override {
    this->Set(CallErrorStatus(v1::CallError::CALL_CANCELLED, Text() + " was cancelled; it may have run"));
  }
  const ActorLife* waited_for() const override { return kReentrant ? nullptr : &door_->life; }
  uint64_t number() const override {
    uint64_t number = number_.load(std::memory_order_acquire);
    if (number != 0) return number;
    auto* self = const_cast<LocalCall*>(this);
    uint64_t given = door_->calls->Number(self->weak_from_this());
    if (self->number_.compare_exchange_strong(number, given, std::memory_order_acq_rel)) return given;
    door_->calls->Forget(given);
    return number;
  }
  Monotonic deadline() const override { return deadline_; }
  void Expire() override {
    if (this->IsSet()) return;
    this->Set(CallErrorStatus(v1::CallError::CALL_DEADLINE, Text() + " did not answer in time; it may have run"));
  }
  void Arm() override {
    if (!armed_.exchange(true)) door_->calls->Arm(this->weak_from_this(), deadline_);
  }
  void Fail(absl::Status status) override { this->Set(std::move(status)); }

 private:
  std::string Text() const { return WireName<Class, kMethod>() + " of " + door_->life.ToString(); }

  const std::shared_ptr<const LocalDoor> door_;
  const Monotonic deadline_;
  std::optional<typename Traits::Arguments> arguments_;  // Until it runs.
  std::shared_ptr<LocalCall> self_;                      // While it is in a mailbox.
  std::atomic<uint64_t> number_{0};                      // 0: nobody has asked.
  std::atomic<bool> armed_{false};
};

template <typename Class, auto kMethod>
class LocalNote final : public Message, public SmallPooled {
 public:
  using Arguments = typename MethodTraits<decltype(kMethod)>::Arguments;

  template <typename... Args>
  explicit LocalNote(Monotonic deadline, Args&&... args)
      : deadline_(deadline), arguments_(std::forward<Args>(args)...) {}

  // Into the mailbox, which owns it then; errors as of Mailbox::Push.
  static absl::Status Deliver(std::unique_ptr<LocalNote> note, LocalDoor& door) {
    absl::Status pushed = door.Push(note.get(), LocalValue<Arguments>::Bytes(note->arguments_));
    if (pushed.ok()) (void)note.release();
    return pushed;
  }

  void Run(Actor& actor, Strand& strand) override {
    std::unique_ptr<LocalNote> self(this);
    if (strand.executor().Passed(deadline_)) return;
    Arguments arguments = std::move(arguments_);
    self = nullptr;
    RunLocally<Class, kMethod>(actor, strand, std::move(arguments), [](const auto&) {});
  }
  void Refuse(const ActorLife&) override { delete this; }
  void Drop() override { delete this; }

 private:
  const Monotonic deadline_;
  Arguments arguments_;
};

}  // namespace troupe::internal
