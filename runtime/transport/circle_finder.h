// SPDX-License-Identifier: Apache-2.0
// CircleFinder: finds circles of actors of several processes that wait for each other's answers. Pure: no clock, no
// lock, no IO; its driver is transport_circles.cc. DESIGN.md says why it finds every circle and nothing else.
//
// Edge chasing (Chandy, Misra, Haas 1983, the AND model), confirmed: a waiter that has waited for a while sends a probe
// along the calls that it waits for. Who gets one and waits too sends it on. A probe that comes back to its waiter has
// found a circle if all of it was there at once; so a confirm goes back along the same way, on the sessions on which
// the replies would come. Each step must still be the same wait for the same call then.
// Of a circle the waiter whose life is the greatest is told, and nobody else: its probes alone go all the way round.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/actor/wait_graph.h"
#include "runtime/base/ids.h"

namespace troupe {

struct CircleStep {
  ActorLife life;
  uint64_t wait = 0;
  uint64_t call = 0;
};

// As it travels: WaitProbe of proto/troupe/v1/actor.proto.
struct CircleProbe {
  uint64_t number = 0;
  std::vector<CircleStep> steps;
  ActorLife target;
  size_t unconfirmed = 0;

  std::string Encode() const;
  // INVALID_ARGUMENT: it cannot be.
  static absl::StatusOr<CircleProbe> Decode(const std::string& bytes);
};

class CircleFinder {
 public:
  // A longer circle is not found: its calls end by their deadlines.
  static constexpr size_t kStepsMax = 256;
  // Probes that this process remembers to have sent on; what comes beyond it is dropped, and sent again later.
  static constexpr size_t kTracesMax = 4096;
  // For how many ticks.
  static constexpr uint64_t kTraceTicks = 64;
  // A wait is looked at after 1, 2, 4, ... ticks, and every so many.
  static constexpr uint64_t kTicksBetweenMax = 32;

  struct Action {
    enum class Kind {
      kProbe,    // To the process of the call numbered `to`; nothing happens if the call is within this process.
      kConfirm,  // Back on the session numbered `to`, behind the replies that were sent there.
      kFound,    // The call numbered `to`, of this process, ends with CALL_DEADLOCK and `text`.
    };
    Kind kind = Kind::kProbe;
    uint64_t to = 0;
    CircleProbe probe;
    std::string text;
  };
  using Actions = std::vector<Action>;

  // `waits` is that of this process and outlives the finder.
  explicit CircleFinder(const WaitGraph& waits) : waits_(waits) {}

  // Again and again, while actors wait: looks at those that did so at the last tick already.
  Actions Tick();
  // A probe that came on that session of a caller.
  Actions TakeProbe(CircleProbe probe, uint64_t session);
  // A confirm that came from the other side of a session that this process dialed.
  Actions TakeConfirm(CircleProbe probe);

  // Of the newest wait at the last tick.
  uint64_t mark() const { return mark_; }

 private:
  struct Key {
    ActorLife first;
    uint64_t wait = 0;
    uint64_t number = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // What this process did with a probe. Each actor is reached by one way: the first.
  struct Trace {
    uint64_t tick = 0;
    std::set<ActorLife> seen;
    std::map<ActorLife, uint64_t> sessions;  // Where it came from, of those actors that were not reached from here.
  };

  // Null: there are too many.
  Trace* TraceOf(const Key& key);
  // Sends the probe on from its target, which waits, if it does.
  void SendOn(CircleProbe probe, Trace& trace, Actions& actions);
  void Confirm(CircleProbe probe, Actions& actions);
  bool Holds(const CircleStep& step) const;

  const WaitGraph& waits_;
  uint64_t ticks_ = 0;
  uint64_t mark_ = 0;
  uint64_t probes_made_ = 0;
  std::map<uint64_t, uint64_t> ages_;  // Ticks, by wait.
  std::map<Key, Trace> traces_;
};

}  // namespace troupe
