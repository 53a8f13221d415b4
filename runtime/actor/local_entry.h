// SPDX-License-Identifier: Apache-2.0
// LocalEntry: what LocalActors knows of one of its actors, over all its lives. Kept small: there may be a million.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/actor/actor_cell.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/restart_history.h"
#include "runtime/actor/spawn.h"

namespace troupe {

struct LocalEntry {
  LocalEntry(const ActorClass& of, std::string encoded, const SpawnOptions& options)
      : actor_class(&of),
        arguments(std::move(encoded)),
        labels(options.labels.empty() ? nullptr : std::make_unique<Labels>(options.labels)),
        mailbox(options.mailbox),
        start_timeout(options.start_timeout),
        detached(options.detached),
        own_thread(options.own_thread),
        ends_on_exception(options.restart.on_exception),
        name(options.name),
        restarts(options.restart.max > 0 ? std::make_unique<RestartHistory>(options.restart) : nullptr) {}
  using Labels = std::map<std::string, std::string>;

  const ActorClass* const actor_class;
  const std::string arguments;
  const std::unique_ptr<const Labels> labels;  // Null: none.
  const MailboxLimits mailbox;
  const absl::Duration start_timeout;
  const bool detached;
  const bool own_thread;
  const bool ends_on_exception;
  std::string name;  // Fixed once it stands among the others.

  // Below under the lock of LocalActors.
  std::shared_ptr<LocalEntry> parent;               // Null: it has none, or is detached.
  std::unique_ptr<std::set<std::string>> children;  // By name; none of them detached. Null: it never had one.
  const std::unique_ptr<RestartHistory> restarts;   // Null: there is no next life.
  int restarted = 0;
  bool starting = true;                       // Its first OnStart has not ended.
  std::shared_ptr<internal::LocalDoor> door;  // Of the newest life; null before the first.
  std::optional<ActorContext> context;        // The same.
  std::shared_ptr<ActorCell> cell;            // Null while no life runs.
  std::unique_ptr<std::string> stop_asked;    // Why there is no next life, and the one that begins is stopped.
  std::unique_ptr<v1::ExitCause> failed;      // The life has ended so, and its children are waited for.
  uint64_t backoff_timer = 0;
  internal::Gate ended;  // For good.

  bool HasChildren() const { return children != nullptr && !children->empty(); }
  // The first reason counts.
  void StopFor(const std::string& reason) {
    if (stop_asked == nullptr) stop_asked = std::make_unique<std::string>(reason);
  }
  bool IsLife(const ActorLife& life) const { return door != nullptr && door->life == life; }
  ActorInfo Info() const {
    ActorInfo info;
    if (door != nullptr) info.address = *door;
    info.actor_class = actor_class->name;
    if (labels != nullptr) info.labels = *labels;
    info.restarts = restarted;
    info.alive = cell != nullptr;
    if (failed != nullptr) info.reason = failed->text();
    return info;
  }
};

// For sets of them by name.
struct LocalEntryName {
  using is_transparent = void;
  static std::string_view Of(std::string_view name) { return name; }
  static std::string_view Of(const std::shared_ptr<LocalEntry>& entry) { return entry->name; }
  template <typename T>
  size_t operator()(const T& of) const {
    return std::hash<std::string_view>()(Of(of));
  }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    return Of(a) == Of(b);
  }
};

}  // namespace troupe
