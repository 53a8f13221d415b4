// SPDX-License-Identifier: Apache-2.0
// ObjectBudget: how many bytes the memory files of a node may have, all kinds together, and how many of them those of
// one worker.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "runtime/base/ids.h"

namespace troupe {

struct ObjectBudget {
  int64_t bytes_max = 0;
  int64_t bytes = 0;
  int64_t worker_bytes_max = 0;             // The quota of one worker; 0: none but the whole.
  std::map<ActorPath, int64_t> of_workers;  // Those that have any.

  // RESOURCE_EXHAUSTED: `more` does not fit; nothing is taken then.
  absl::Status Take(int64_t more) {
    if (more > bytes_max - bytes) {
      return absl::ResourceExhaustedError("the objects of this node hold " + std::to_string(bytes) + " of " +
                                          std::to_string(bytes_max) + " bytes; " + std::to_string(more) +
                                          " more do not fit");
    }
    bytes += more;
    return absl::OkStatus();
  }
  void Give(int64_t back) { bytes -= back; }

  // The same on the account of a worker; one without a job is nobody's worker and has no quota.
  absl::Status Take(int64_t more, const ActorPath& worker) {
    if (worker.job.empty()) return Take(more);
    auto found = of_workers.find(worker);
    const int64_t has = found == of_workers.end() ? 0 : found->second;
    if (worker_bytes_max > 0 && more > worker_bytes_max - has) {
      return absl::ResourceExhaustedError("the objects of " + worker.ToString() + " hold " + std::to_string(has) +
                                          " bytes of its quota of " + std::to_string(worker_bytes_max) + "; " +
                                          std::to_string(more) +
                                          " more do not fit (troupe node --worker-objects sets the quota)");
    }
    if (absl::Status taken = Take(more); !taken.ok()) return taken;
    of_workers[worker] += more;
    return absl::OkStatus();
  }
  void Give(int64_t back, const ActorPath& worker) {
    Give(back);
    auto found = of_workers.find(worker);
    if (found != of_workers.end() && (found->second -= back) <= 0) of_workers.erase(found);
  }
};

}  // namespace troupe
