// SPDX-License-Identifier: Apache-2.0
// SimulatedCluster: the deciding part of a head with nodes that do at once what they are told, for benchmarks and tests
// of many nodes: no disk, no network, no processes, and a clock that only steps move. Not thread-safe.
//
//   SimulatedCluster cluster({.nodes = 10'000});
//   std::string job = cluster.Submit(spec).value();   // placed, and its workers are ready
//   ... cluster.last() ...                             // how long the decision took
//   cluster.Cancel(job);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/core/cluster.h"

namespace troupe::scheduler {

struct SimulatedNodes {
  int nodes = 1;
  double cpus = 64;
  int devices = 8;  // Of the kind "sim".
  size_t active_jobs_max = 1'000'000;
};

// What one decision cost and did.
struct Decision {
  absl::Duration took;
  int placed = 0;  // Workers that were given a place and started.
};

class SimulatedCluster {
 public:
  explicit SimulatedCluster(const SimulatedNodes& shape);

  // Decides. A node of a name that is there comes back as one that knows nothing, with other resources perhaps: what
  // was on it is lost, and placed anew in the same decision.
  void AddNode(const std::string& name, double cpus, int devices);

  // Decides; then its workers report that they are ready. The job's id, also when it waits; why it was refused.
  absl::StatusOr<std::string> Submit(const v1::JobSpec& spec);
  // Decides; then its workers report their exits, each node all of its own at once.
  void Cancel(const std::string& job_id);

  // The node, submission or cancellation that came last, without the reports that followed.
  const Decision& last() const { return last_; }
  // All steps so far, reports included.
  absl::Duration deciding() const { return deciding_; }
  const Cluster& cluster() const { return cluster_; }

 private:
  absl::Duration Step(const Event& event, int* placed);
  void Decide(const Event& event);
  void Report();

  Cluster cluster_;
  Now now_;
  SessionId last_session_ = 0;
  CallId last_call_ = 0;
  std::map<std::string, SessionId> sessions_;
  std::map<SessionId, v1::AgentMessages> reports_;  // What nodes have to say.
  std::map<CallId, Answer> answers_;
  Decision last_;
  absl::Duration deciding_;
};

}  // namespace troupe::scheduler
