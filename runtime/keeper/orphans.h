// SPDX-License-Identifier: Apache-2.0
// Orphans: processes that dead workers left behind, and which worker each may belong to.
//
// Every worker is the subreaper of its own descendants, and the keeper of everything below it. So a child of the keeper
// that is no worker's own process can only come from a worker that has died: it is killed whoever it belongs to. What
// has to be known is only whose exit it holds up: that of the workers that were dead and not yet reported when it was
// first seen, or, when they are several, of the one that its environment names.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/keeper/process_table.h"

namespace troupe::keeper {

// Pure; not thread-safe.
class Orphans {
 public:
  // Whether the process says that it belongs to the actor.
  using Names = std::function<bool(pid_t pid, const ActorLife& actor)>;

  // `table`: one pass over /proc, made after every exit known so far was reaped. `living`: the workers' own processes.
  // `ending`: workers whose own process has exited. Returns those of the orphans that are not zombies: to be killed.
  std::vector<pid_t> Update(const std::vector<ProcessEntry>& table, pid_t keeper, const std::set<pid_t>& living,
                            const std::vector<ActorLife>& ending, const Names& names);

  // Whether a process that may be the actor's was there at the last update.
  bool Hold(const ActorLife& actor) const;
  // Of how many processes, so far, the actor alone was the owner and they had to be killed.
  int KilledOf(const ActorLife& actor) const;
  void Forget(const ActorLife& actor) { killed_.erase(actor); }

 private:
  std::map<pid_t, std::vector<ActorLife>> owners_;  // Candidates of each orphan there is.
  std::map<ActorLife, int> killed_;
};

}  // namespace troupe::keeper
