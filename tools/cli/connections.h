// SPDX-License-Identifier: Apache-2.0
// Asks actors' processes how they reach each other.
#pragma once

#include <string>
#include <vector>

#include "runtime/rpc/security.h"
#include "troupe/v1/head.pb.h"

namespace troupe::cli {

// A line a connection of each of `actors`, in their order; what an actor says of frames that it refused comes last. Of
// those that are not ready, nothing; of those that cannot be asked from here, why. All are asked at once, and none is
// waited for longer than a second.
std::vector<std::vector<std::string>> ConnectionsOf(const std::vector<v1::Actor>& actors, const RpcSecurity& security);

}  // namespace troupe::cli
