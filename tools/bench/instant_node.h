// SPDX-License-Identifier: Apache-2.0
// InstantNode: a node whose workers are ready as soon as they are asked for and gone as soon as they are stopped. It
// has an agent's link to the head and no processes: with it, what a head does for a gang is measured alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/agent/head_link.h"
#include "runtime/base/mutex.h"
#include "runtime/rpc/security.h"

namespace troupe::bench {

class InstantNode {
 public:
  // Welcomed by the head at `target` when it returns. DEADLINE_EXCEEDED: the head did not answer; else why it refused.
  static absl::StatusOr<std::unique_ptr<InstantNode>> Start(const std::string& target, const RpcSecurity& security);

 private:
  InstantNode() = default;
  void On(const agent::AgentEvent& event);

  Mutex mutex_;
  ConditionVariable changed_;
  bool welcomed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refused_ ABSL_GUARDED_BY(mutex_);
  uint64_t stream_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<agent::HeadLink> link_;  // Set under the mutex; last, since its threads use the others.
};

}  // namespace troupe::bench
