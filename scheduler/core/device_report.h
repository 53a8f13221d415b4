// SPDX-License-Identifier: Apache-2.0
// What a node says of its devices: whether it can be, and what follows for placement. Pure.
#pragma once

#include "absl/status/status.h"
#include "scheduler/core/free_capacity.h"
#include "troupe/v1/node.pb.h"

namespace troupe::scheduler {

inline constexpr size_t kDeviceTextBytesMax = 512;  // Of an id, a model, a reason.
inline constexpr int kNumaNodesMax = 1024;

// INVALID_ARGUMENT names the node, the device and what is wrong: a kind that is not known, more or fewer devices than
// its resources say, numbers that are not 0 .. n-1 in this order, an id that two have, an absurd memory; a further kind
// of resource without a name or with an absurd amount. A node that lists none of its devices is believed their number.
absl::Status CheckDevices(const v1::RegisterNode& node);

// The same of one device of a registered node.
absl::Status CheckDeviceChanged(const v1::RegisterNode& node, const v1::Device& device);

// What a failed device has left is nothing, whoever holds or gives back some of it: nothing new is placed on it.
// What stays as long as the node is registered.
std::shared_ptr<const NodeFacts> FactsOf(const v1::RegisterNode& node);
void WithholdFailedDevices(const v1::RegisterNode& node, NodeCapacity& capacity);

}  // namespace troupe::scheduler
