// SPDX-License-Identifier: Apache-2.0
// CallRouter: carries encoded calls to actors, wherever they live, and the replies back. runtime/transport implements
// it, and the simulation for tests (runtime/actor/testing). Actor code uses Ref<T> instead.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/actor/future_state.h"
#include "runtime/actor/wait_graph.h"
#include "runtime/base/callback.h"
#include "runtime/base/ids.h"
#include "troupe/v1/common.pb.h"

namespace troupe {

class ObjectStore;

// Where an actor's one life is reached.
struct ActorAddress {
  ActorLife life;
  std::string endpoint;  // Target for gRPC: "unix:/path" or "host:port"; empty for actors of this process only.

  friend auto operator<=>(const ActorAddress&, const ActorAddress&) = default;
};
using SharedAddress = std::shared_ptr<const ActorAddress>;

class LocalCalls;
namespace internal {
struct LocalDoor;
}  // namespace internal

// An address as refs hold it.
struct ActorPlace {
  SharedAddress address;
  // Where calls go without the router; null: there is no such way. Lives as long as the address.
  internal::LocalDoor* door = nullptr;
};

// How another process is reached now, or reaches this one.
struct Connection {
  std::string process;   // Of one that was dialed: the first actor there that was called. Else the caller's process.
  std::string endpoint;  // Empty of one that the other process dialed.
  bool dialed = false;   // By this process, for calls from here.
  std::string how;       // "shared-memory rings", or "gRPC stream" and why not rings; for people.
};

// Of a call that names none: a minute; longer ones say so (Ref::WithTimeout).
inline constexpr absl::Duration kCallTimeoutDefault = absl::Minutes(1);
// A day: a call that takes longer should be two.
inline constexpr absl::Duration kCallTimeoutMax = absl::Hours(24);

// What a stream's producer may be ahead of its consumer: it goes on when both are kept.
struct StreamWindow {
  // A window beyond them counts as that much (more than any memory holds), one of nothing as one: whoever holds an end
  // of the stream says Bounded, so that both count alike.
  static constexpr size_t kItemsMax = size_t{1} << 40;
  static constexpr size_t kBytesMax = size_t{1} << 40;

  size_t items = 64;
  size_t bytes = 1 << 20;  // Of encoded items; one item may be larger.

  StreamWindow Bounded() const {
    return {std::clamp<size_t>(items, 1, kItemsMax), std::clamp<size_t>(bytes, 1, kBytesMax)};
  }
};

// Called exactly once, on any thread, soon after the deadline at the latest. Errors carry a CallError (call_error.h).
using ReplyCallback = Callback<void(absl::StatusOr<std::string>)>;
// An encoded item of a stream. In order, all before the reply; on any thread, one at a time.
using ItemCallback = Callback<void(std::string)>;

struct OutgoingCall {
  std::string method;                            // "Class.Method".
  std::string arguments;                         // An encoded tuple.
  absl::Duration timeout = kCallTimeoutDefault;  // Bounded by kCallTimeoutMax.
  ReplyCallback reply;
  ItemCallback item;    // Of a method that yields a stream; empty for others.
  StreamWindow window;  // What may come before the first Grant.
  // How often it is sent again when the connection broke. The receiver runs it once, in the same life of the actor.
  int retries = 0;
};

class CallRouter {
 public:
  CallRouter();
  // Of one that passes calls on to another: with the waits and local calls of that.
  explicit CallRouter(const CallRouter& other);
  virtual ~CallRouter();

  // For a new ref.
  virtual ActorPlace Locate(ActorAddress address) const {
    return {std::make_shared<const ActorAddress>(std::move(address)), nullptr};
  }

  // Calls of one thread to one actor arrive in their order. Does not block; `reply` may run before it returns (a full
  // queue, a dead target). The id is for Cancel and Grant.
  virtual uint64_t Call(const ActorAddress& target, OutgoingCall&& call) = 0;

  // One way: no reply travels. OK: it was accepted here (the actor's mailbox, or the queue to its process); what
  // becomes of it later is not told. Errors as of a call that did not run. In order with calls.
  virtual absl::Status Send(const ActorAddress& target, std::string method, std::string arguments) = 0;

  // The call ends with CALL_CANCELLED, if it has not ended; it is not begun, if it was not; a stream that runs is
  // ended.
  virtual void Cancel(uint64_t call) = 0;
  // The stream may go on by that much.
  virtual void Grant(uint64_t call, size_t items, size_t bytes) = 0;

  // As PendingCall::WaitReading, of that call.
  virtual void WaitReading(uint64_t, internal::FutureBase&, Monotonic) {}

  // `ended` runs once when that life is known to have ended (now, if it is), on any thread. The id is for Unwatch,
  // after which it does not begin any more; 0: it has run.
  using EndedCallback = std::function<void(const ActorLife&, const v1::ExitCause&)>;
  virtual uint64_t Watch(const ActorAddress& target, EndedCallback ended) = 0;
  virtual void Unwatch(uint64_t watch) = 0;

  // Of this process to others, and of others to it; by process.
  virtual std::vector<Connection> Connections() const { return {}; }

  // Of the actors of this process.
  WaitGraph& waits() const { return *waits_; }
  // The same, of the calls that go there without the router.
  const std::shared_ptr<LocalCalls>& local_calls() const { return local_calls_; }
  // The objects of this process; null: it has none. Set before the first actor starts.
  const std::shared_ptr<ObjectStore>& objects() const { return objects_; }
  void SetObjects(std::shared_ptr<ObjectStore> objects) { objects_ = std::move(objects); }

 private:
  const std::shared_ptr<WaitGraph> waits_;
  const std::shared_ptr<LocalCalls> local_calls_;
  std::shared_ptr<ObjectStore> objects_;
};

}  // namespace troupe
