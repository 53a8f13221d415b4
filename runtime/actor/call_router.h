// SPDX-License-Identifier: Apache-2.0
// CallRouter: carries one encoded call to an actor, wherever it lives, and the reply back. runtime/transport implements
// it; a test may put its own in the place. Actor code uses Ref<T> instead.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"

namespace troupe {

// Where an actor's one life is reached.
struct ActorAddress {
  ActorLife life;
  std::string endpoint;  // Target for gRPC: "unix:/path" or "host:port"; empty for actors of this process only.

  friend auto operator<=>(const ActorAddress&, const ActorAddress&) = default;
};

// Called exactly once, on any thread, soon after the deadline at the latest. Errors carry a CallError (call_error.h).
using ReplyCallback = std::function<void(absl::StatusOr<std::string>)>;

class CallRouter {
 public:
  virtual ~CallRouter() = default;

  // `method`: "Class.Method". `arguments`: an encoded tuple. `timeout` is bounded by kCallTimeoutMax. Calls of one
  // thread to one actor arrive in their order. Does not block; `reply` may run before it returns (a full queue, a dead
  // target).
  virtual void Call(const ActorAddress& target, std::string method, std::string arguments, absl::Duration timeout,
                    ReplyCallback reply) = 0;
};

// Of a call that names none: a minute; longer ones say so (Ref::WithTimeout).
inline constexpr absl::Duration kCallTimeoutDefault = absl::Minutes(1);
// A day: a call that takes longer should be two.
inline constexpr absl::Duration kCallTimeoutMax = absl::Hours(24);

}  // namespace troupe
