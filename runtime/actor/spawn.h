// SPDX-License-Identifier: Apache-2.0
// SpawnOptions: how an actor is made and what becomes of it when it fails. ActorSpawner: who makes them; Runtime and
// ActorContext hand it typed arguments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/mailbox.h"

namespace troupe {

// A new life after a failure: an OnStart or a constructor that fails, a handler that throws (if asked for). The first
// restart in a window is at once, the second after `backoff_initial`, then doubled up to `backoff_max`; one more than
// `max` in a window and the actor stays ended ("quarantined"), with the last cause.
struct RestartOptions {
  int max = 0;
  absl::Duration window = absl::Minutes(10);
  absl::Duration backoff_initial = absl::Milliseconds(100);
  absl::Duration backoff_max = absl::Seconds(10);
  bool on_exception = false;  // A handler that throws ends the life; else only its caller is told.
};

struct SpawnOptions {
  std::string name;  // Unique among the living of its runtime, [A-Za-z0-9_.-]+; "": the class's name and a number.
  std::map<std::string, std::string> labels;

  // Any of these given: a process of its own, placed where they are free.
  double cpus = 0;  // Cores; fractions allowed.
  int64_t memory_bytes = 0;
  int devices = 0;            // Whole ones.
  double device_share = 0;    // Of one, 0 < share < 1; not together with `devices`.
  std::string device_kind;    // "": any.
  std::string worker_binary;  // The program of that process; "": this one.
  // Variables of that process, beside what it gets anyway and in place of it; no TROUPE_* and not CUDA_VISIBLE_DEVICES.
  // No place for secrets: the head keeps them.
  std::map<std::string, std::string> environment;
  bool NeedsProcess() const {
    return cpus > 0 || memory_bytes > 0 || devices > 0 || device_share > 0 || !worker_binary.empty() ||
           !environment.empty();
  }

  // From the request until OnStart has ended, the wait for resources included.
  absl::Duration start_timeout = absl::Minutes(2);
  RestartOptions restart;
  bool detached = false;  // It does not end with the actor that spawned it.
  MailboxLimits mailbox;
  bool own_thread =
      false;  // All its turns on one thread of its own: for libraries that want it, or long blocking work.
};

struct ActorInfo {
  ActorAddress address;  // Of the newest life.
  std::string actor_class;
  std::map<std::string, std::string> labels;
  int restarts = 0;
  bool alive = false;
  std::string reason;  // Why it is not alive; a sentence.
};

class ActorSpawner {
 public:
  virtual ~ActorSpawner() = default;

  // Constructs and starts; returns when OnStart has ended. `arguments`: an encoded tuple. `parent`: its end ends the
  // new actor (unless detached). INVALID_ARGUMENT: the arguments, or the name. ALREADY_EXISTS: the name. NOT_FOUND: no
  // such class. RESOURCE_EXHAUSTED: too many actors. DEADLINE_EXCEEDED: it did not start within `start_timeout` and is
  // stopped; its name is free when it has ended. UNAVAILABLE: it was stopped before it had started, or its parent has
  // ended. Otherwise what the constructor or OnStart said.
  virtual absl::StatusOr<ActorPlace> Spawn(const std::string& actor_class, std::string arguments,
                                           const SpawnOptions& options, const ActorLife* parent) = 0;
  // The newest life of a name. NOT_FOUND: there never was one, or it has ended for good.
  virtual absl::StatusOr<ActorInfo> Find(const std::string& name) const = 0;
  virtual std::vector<ActorInfo> List() const = 0;
  // Ends that life and what it has spawned, gracefully; OK when all is over, or was before. DEADLINE_EXCEEDED: a
  // handler did not end in time; the stop goes on.
  virtual absl::Status Stop(const ActorLife& life, const std::string& reason, absl::Duration grace) = 0;
};

}  // namespace troupe
