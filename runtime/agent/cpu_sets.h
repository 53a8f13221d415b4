// SPDX-License-Identifier: Apache-2.0
// CpuSets: which processors of a node each worker has for itself. Pure; not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "troupe/v1/node.pb.h"

namespace troupe::agent {

// Workers that take turns (a colocation group) share one set. One that asks for a part of a processor, or finds no
// whole ones left, has none of its own and runs on all.
class CpuSets {
 public:
  // `cpus`: all that workers may have. `numa_cpus`: those of each NUMA node, where that is known.
  CpuSets(std::vector<int> cpus, std::map<int, std::vector<int>> numa_cpus);

  // Its processors from now on, those near the NUMA nodes of its devices first; empty: none of its own.
  std::vector<int> Take(const v1::StartWorker& start, const std::vector<int>& numa_nodes);
  // It has these since before (another agent gave them).
  void Hold(const v1::StartWorker& start, const std::vector<int>& cpus);
  void Release(const ActorLife& actor);

 private:
  struct Share {
    std::set<ActorLife> members;
    std::vector<int> cpus;
  };
  Share& Of(const v1::StartWorker& start);

  std::vector<int> cpus_;
  std::map<int, std::vector<int>> numa_cpus_;
  std::set<int> taken_;
  std::map<std::string, Share> shares_;  // By the slot: "job/group/replica".
  std::map<ActorLife, std::string> slots_;
};

}  // namespace troupe::agent
