// SPDX-License-Identifier: Apache-2.0
// Where a worker's own Unix socket stands: known from its life, so that the agent can remove what a killed one left.
#pragma once

#include <string>

#include "runtime/base/ids.h"

namespace troupe {

// In the folder of the agent's socket: "w-<16 hex digits>.sock", short whatever the names of job and role are.
std::string WorkerSocketPath(const std::string& agent_socket, const ActorLife& life);

}  // namespace troupe
