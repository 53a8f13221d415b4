// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/orphans.h"

#include <algorithm>

namespace troupe::keeper {
namespace {

std::vector<ActorLife> CandidatesFor(pid_t pid, const std::vector<ActorLife>& ending, const Orphans::Names& names) {
  if (ending.size() > 1) {
    for (const ActorLife& actor : ending) {
      if (names(pid, actor)) return {actor};
    }
  }
  return ending;
}

}  // namespace

std::vector<pid_t> Orphans::Update(const std::vector<ProcessEntry>& table, pid_t keeper, const std::set<pid_t>& living,
                                   const std::vector<ActorLife>& ending, const Names& names) {
  std::map<pid_t, std::vector<ActorLife>> now;
  std::vector<pid_t> to_kill;
  for (const ProcessEntry& entry : table) {
    if (entry.parent != keeper || living.count(entry.pid) > 0) continue;
    auto known = owners_.find(entry.pid);
    bool is_new = known == owners_.end();
    std::vector<ActorLife> owners = is_new ? CandidatesFor(entry.pid, ending, names) : known->second;
    if (!entry.zombie) {
      to_kill.push_back(entry.pid);
      if (is_new && owners.size() == 1) ++killed_[owners[0]];
    }
    now[entry.pid] = std::move(owners);
  }
  owners_ = std::move(now);
  return to_kill;
}

bool Orphans::Hold(const ActorLife& actor) const {
  return std::any_of(owners_.begin(), owners_.end(), [&](const auto& orphan) {
    return std::find(orphan.second.begin(), orphan.second.end(), actor) != orphan.second.end();
  });
}

int Orphans::KilledOf(const ActorLife& actor) const {
  auto it = killed_.find(actor);
  return it == killed_.end() ? 0 : it->second;
}

}  // namespace troupe::keeper
