// SPDX-License-Identifier: Apache-2.0
// Slots: what a job asks for, in units that are placed as a whole. A role replica is a slot of its own; replica i of
// all roles of one colocation group shares slot i of the group, and asks for the largest of each kind.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/core/placement_rule.h"
#include "troupe/v1/head.pb.h"

namespace troupe::scheduler {

inline constexpr int kSharesPerDevice = 1000;  // A device is shared in thousandths, so that sums are exact.

// Limits of a job: nothing real comes near them; a typing error does.
inline constexpr int kReplicasMax = 10'000;  // Of one job.
inline constexpr int kRolesMax = 256;
inline constexpr int kCpusMax = 1'000'000;  // Of one replica.
inline constexpr int kDevicesMax = 100'000;
inline constexpr int64_t kMemoryBytesMax = int64_t{1} << 46;        // 64 TiB, of one replica or node.
inline constexpr int64_t kDeviceMemoryBytesMax = int64_t{1} << 43;  // 8 TiB: a wrong unit has more.
inline constexpr int kCustomResourcesMax = 64;
inline constexpr double kCustomAmountMax = 1e9;
inline constexpr int64_t kDurationMsMax = int64_t{1} << 38;  // 8 years, of every duration of a job.
inline constexpr size_t kNameBytesMax = 64;
inline constexpr size_t kConfigBytesMax = 1 << 20;
inline constexpr size_t kEnvironmentBytesMax = 64 << 10;  // Of one role; all of them stand in the records of the job.

// Amounts as whole numbers.
struct Amount {
  int64_t milli_cpus = 0;
  int64_t memory_bytes = 0;   // In a need 0: not limited and not counted. In a node 0: not known and not counted.
  int32_t devices = 0;        // Whole ones.
  int32_t device_shares = 0;  // Thousandths of one device; then `devices` is 0.
  std::string device_kind;    // "" any.
  // In a need: of each device, 0 not limited and not counted. In a node 0: NodeFacts says it.
  int64_t device_memory_bytes = 0;
  std::map<std::string, int64_t> custom;  // Thousandths, by name; none is 0.

  static Amount FromProto(const v1::Resources& resources);
  v1::Resources ToProto() const;
  // "2 cpus, 4 GiB, 1 device (sim)"
  std::string ToString() const;
  friend bool operator==(const Amount&, const Amount&) = default;
};

// The place of a replica in its job.
struct ReplicaKey {
  std::string role;
  int32_t replica = 0;
  std::string ToString() const { return role + "/" + std::to_string(replica); }
  friend auto operator<=>(const ReplicaKey&, const ReplicaKey&) = default;
};

struct Slot {
  std::vector<ReplicaKey> members;  // At least one.
  Amount need;
  std::shared_ptr<const PlacementRule> rule;  // nullptr: anywhere.
  // "rollout/0" or "rollout/0 with actor/0"
  std::string ToString() const;
};

// The slots of a checked spec, in the order of its roles; the index is the slot's number in records.
std::vector<Slot> SlotsOf(const v1::JobSpec& spec);
// Those without which it does not start: of an elastic role its least number.
std::vector<Slot> LeastSlotsOf(const v1::JobSpec& spec);

// INVALID_ARGUMENT names the field, the value and what is allowed.
absl::Status CheckResources(const v1::Resources& resources);
absl::Status CheckDuration(const char* name, int64_t ms);
// A name of a job, a role, a queue.
absl::Status CheckName(const std::string& name);
absl::Status CheckJobSpec(const v1::JobSpec& spec);

}  // namespace troupe::scheduler
