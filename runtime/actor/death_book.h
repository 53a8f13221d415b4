// SPDX-License-Identifier: Apache-2.0
// DeathBook: which lives are known to have ended, and who wants to be told. Has no lock and calls nobody: it stands
// under its router's, which runs what Record returns.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor/call_router.h"
#include "runtime/base/ids.h"

namespace troupe {

class DeathBook {
 public:
  using EndedCallback = CallRouter::EndedCallback;
  // The newest dead life of so many replicas is remembered, the oldest deaths are forgotten.
  static constexpr size_t kDeathsMax = 4096;

  struct Told {
    ActorLife life;
    EndedCallback ended;
  };

  // That life and those before it have ended. Nothing: it was known. Otherwise whom to tell.
  std::optional<std::vector<Told>> Record(const ActorLife& life, const v1::ExitCause& cause) {
    Death& death = deaths_[life.path];
    if (life.incarnation <= death.incarnation) return std::nullopt;
    if (death.incarnation == 0) order_.push_back(life.path);
    death = {life.incarnation, cause};
    if (order_.size() > kDeathsMax) {
      deaths_.erase(order_.front());
      order_.pop_front();
    }
    std::vector<Told> told;
    auto it = watchers_.lower_bound({life.path, 0});
    while (it != watchers_.end() && it->first.first == life.path) {
      bool over = it->second.life.incarnation <= life.incarnation;
      if (over) {
        told.push_back(std::move(it->second));
        paths_.erase(it->first.second);
      }
      it = over ? watchers_.erase(it) : std::next(it);
    }
    return told;
  }

  // Null: that life is not known to have ended. Valid until the next change.
  const v1::ExitCause* CauseOf(const ActorLife& life) const {
    auto found = deaths_.find(life.path);
    return found == deaths_.end() || life.incarnation > found->second.incarnation ? nullptr : &found->second.cause;
  }

  uint64_t Watch(const ActorLife& life, EndedCallback ended) {
    uint64_t id = ++made_;
    watchers_[{life.path, id}] = {life, std::move(ended)};
    paths_[id] = life.path;
    return id;
  }
  void Unwatch(uint64_t id) {
    auto path = paths_.find(id);
    if (path == paths_.end()) return;
    watchers_.erase({path->second, id});
    paths_.erase(path);
  }

 private:
  struct Death {
    uint64_t incarnation = 0;
    v1::ExitCause cause;
  };

  std::map<ActorPath, Death> deaths_;
  std::deque<ActorPath> order_;  // The keys of deaths_, the oldest first.
  uint64_t made_ = 0;
  std::map<std::pair<ActorPath, uint64_t>, Told> watchers_;
  std::unordered_map<uint64_t, ActorPath> paths_;  // Of the watchers.
};

}  // namespace troupe
