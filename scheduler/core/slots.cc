// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/slots.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "scheduler/core/groups.h"

namespace troupe::scheduler {
namespace {

std::string BytesText(int64_t bytes) {
  if (bytes >= int64_t{1} << 30) return absl::StrFormat("%.4g GiB", static_cast<double>(bytes) / (1 << 30));
  return absl::StrFormat("%.4g MiB", static_cast<double>(bytes) / (1 << 20));
}

void TakeLargest(const Amount& other, Amount& need) {
  need.milli_cpus = std::max(need.milli_cpus, other.milli_cpus);
  need.memory_bytes = std::max(need.memory_bytes, other.memory_bytes);
  need.devices = std::max(need.devices, other.devices);
  need.device_shares = std::max(need.device_shares, other.device_shares);
  if (need.devices > 0) need.device_shares = 0;  // A whole device holds every share.
  if (need.device_kind.empty()) need.device_kind = other.device_kind;
  need.device_memory_bytes = std::max(need.device_memory_bytes, other.device_memory_bytes);
  for (const auto& [name, amount] : other.custom) {
    int64_t& most = need.custom[name];
    most = std::max(most, amount);
  }
}

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  }) && std::isalnum(static_cast<unsigned char>(name[0]));
}

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

constexpr char kNameRule[] = "use letters, digits, '-', '_' and '.', starting with a letter or digit, at most 64";

absl::Status CheckEnvironment(const v1::RoleSpec& role) {
  size_t bytes = 0;
  for (const std::string& variable : role.environment()) {
    std::string name = variable.substr(0, variable.find('='));
    bytes += variable.size();
    bool good = !name.empty() && name.size() < variable.size() &&
                std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
                std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; }) &&
                variable.find('\0') == std::string::npos;
    if (!good) return Bad(absl::StrCat("environment: '", name, "' is no name of a variable"));
    if (name.rfind("TROUPE_", 0) == 0 || name == "CUDA_VISIBLE_DEVICES") {
      return Bad(absl::StrCat("environment: ", name, " is set by Troupe itself"));
    }
  }
  if (bytes <= kEnvironmentBytesMax) return absl::OkStatus();
  return Bad(absl::StrCat("environment has ", bytes, " bytes: at most ", kEnvironmentBytesMax));
}

absl::Status CheckRole(const v1::RoleSpec& role) {
  if (!IsName(role.role())) return Bad(absl::StrCat("the name is not allowed: ", kNameRule));
  if (role.actor_class().empty()) return Bad("actor_class is empty: name the class to start");
  if (role.replicas() < 1 || role.replicas() > kReplicasMax) {
    return Bad(absl::StrCat("replicas is ", role.replicas(), ": it must be between 1 and ", kReplicasMax));
  }
  if (role.role() == "controller" && role.replicas() != 1) return Bad("replicas must be 1: a job has one controller");
  TROUPE_RETURN_IF_ERROR(Annotate(CheckResources(role.resources()), "resources"));
  TROUPE_RETURN_IF_ERROR(CheckEnvironment(role));
  if (role.mailbox_messages_max() < 0 || role.mailbox_bytes_max() < 0) return Bad("a bound of the mailbox is negative");
  const v1::RestartPolicy& restart = role.restart();
  if (restart.max_restarts() < 0) return Bad("restart: max_restarts is negative");
  TROUPE_RETURN_IF_ERROR(CheckDuration("restart: window_ms", restart.window_ms()));
  TROUPE_RETURN_IF_ERROR(CheckDuration("restart: backoff_initial_ms", restart.backoff_initial_ms()));
  return CheckDuration("restart: backoff_max_ms", restart.backoff_max_ms());
}

// Roles of one group that name different kinds of device can share no slot.
absl::Status CheckGroups(const v1::JobSpec& spec) {
  std::map<std::string, const v1::RoleSpec*> kinds;
  for (const v1::RoleSpec& role : spec.roles()) {
    const std::string& kind = role.resources().device_kind();
    if (role.colocation_group().empty() || kind.empty()) continue;
    auto [it, added] = kinds.emplace(role.colocation_group(), &role);
    if (!added && it->second->resources().device_kind() != kind) {
      return Bad(absl::StrCat("roles ", it->second->role(), " and ", role.role(), " take turns in group '",
                              role.colocation_group(), "' but ask for devices of the kinds '",
                              it->second->resources().device_kind(), "' and '", kind, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDuration(const char* name, int64_t ms) {
  if (ms >= 0 && ms <= kDurationMsMax) return absl::OkStatus();
  return Bad(absl::StrCat(name, " is ", ms, ": it must be between 0 and ", kDurationMsMax));
}

absl::Status CheckResources(const v1::Resources& r) {
  if (!std::isfinite(r.cpus()) || r.cpus() < 0 || r.cpus() > kCpusMax) {
    return Bad(absl::StrCat("cpus is ", r.cpus(), ": it must be between 0 and ", kCpusMax));
  }
  if (r.memory_bytes() < 0 || r.memory_bytes() > kMemoryBytesMax) {
    return Bad(absl::StrCat("memory_bytes is ", r.memory_bytes(), ": it must be between 0 and ", kMemoryBytesMax));
  }
  if (r.devices() < 0 || r.devices() > kDevicesMax) {
    return Bad(absl::StrCat("devices is ", r.devices(), ": it must be between 0 and ", kDevicesMax));
  }
  if (r.device_share() != 0 && !(r.device_share() > 0 && r.device_share() < 1)) {
    return Bad(absl::StrCat("device_share is ", r.device_share(), ": it must be above 0 and below 1"));
  }
  if (r.device_share() != 0 && r.devices() != 0) return Bad("devices and device_share are both given: give one");
  if (r.device_memory_bytes() < 0 || r.device_memory_bytes() > kDeviceMemoryBytesMax) {
    return Bad(absl::StrCat("device_memory_bytes is ", r.device_memory_bytes(), ": it must be between 0 and ",
                            kDeviceMemoryBytesMax));
  }
  if (r.custom_size() > kCustomResourcesMax)
    return Bad(absl::StrCat("more than ", kCustomResourcesMax, " custom resources"));
  for (const auto& [name, amount] : r.custom()) {
    if (!IsName(name)) return Bad(absl::StrCat("custom resource '", name, "': ", kNameRule));
    if (!(amount > 0 && amount <= kCustomAmountMax)) {
      return Bad(absl::StrCat("custom resource '", name, "' is ", amount, ": it must be above 0 and at most ",
                              kCustomAmountMax));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckName(const std::string& name) {
  return IsName(name) ? absl::OkStatus() : Bad(absl::StrCat("name '", name, "' is not allowed: ", kNameRule));
}

// Whole thousandths, upwards, so that no request is taken for less.
std::map<std::string, int64_t> CustomOf(const v1::Resources& resources) {
  std::map<std::string, int64_t> custom;
  for (const auto& [name, amount] : resources.custom()) {
    custom[name] = static_cast<int64_t>(std::ceil(amount * 1000 - 1e-6));
  }
  return custom;
}

Amount Amount::FromProto(const v1::Resources& resources) {
  return {.milli_cpus = std::llround(resources.cpus() * 1000),
          .memory_bytes = resources.memory_bytes(),
          .devices = resources.devices(),
          .device_shares = static_cast<int32_t>(std::ceil(resources.device_share() * kSharesPerDevice - 1e-6)),
          .device_kind = resources.device_kind(),
          .device_memory_bytes = resources.device_memory_bytes(),
          .custom = CustomOf(resources)};
}

v1::Resources Amount::ToProto() const {
  v1::Resources resources;
  resources.set_cpus(static_cast<double>(milli_cpus) / 1000);
  resources.set_memory_bytes(memory_bytes);
  resources.set_devices(devices);
  resources.set_device_share(static_cast<double>(device_shares) / kSharesPerDevice);
  resources.set_device_kind(device_kind);
  resources.set_device_memory_bytes(device_memory_bytes);
  for (const auto& [name, amount] : custom) (*resources.mutable_custom())[name] = static_cast<double>(amount) / 1000;
  return resources;
}

std::string Amount::ToString() const {
  double cpus = static_cast<double>(milli_cpus) / 1000;
  std::string text = absl::StrCat(cpus, cpus == 1 ? " cpu" : " cpus");
  if (memory_bytes > 0) absl::StrAppend(&text, ", ", BytesText(memory_bytes));
  if (devices > 0) absl::StrAppend(&text, ", ", devices, devices == 1 ? " device" : " devices");
  if (device_shares > 0)
    absl::StrAppend(&text, ", ", static_cast<double>(device_shares) / kSharesPerDevice, " of a device");
  if ((devices > 0 || device_shares > 0) && !device_kind.empty()) absl::StrAppend(&text, " (", device_kind, ")");
  if (device_memory_bytes > 0) absl::StrAppend(&text, " with ", BytesText(device_memory_bytes), " each");
  for (const auto& [name, amount] : custom) absl::StrAppend(&text, ", ", static_cast<double>(amount) / 1000, " ", name);
  return text;
}

std::string Slot::ToString() const {
  std::string text;
  for (const ReplicaKey& member : members) absl::StrAppend(&text, text.empty() ? "" : " with ", member.ToString());
  return text;
}

std::vector<Slot> SlotsOf(const v1::JobSpec& spec) {
  std::vector<Slot> slots;
  std::map<std::pair<std::string, int>, size_t> shared;  // (group, replica) -> slot
  for (const v1::RoleSpec& role : spec.roles()) {
    const Amount need = Amount::FromProto(role.resources());
    const std::shared_ptr<const PlacementRule> rule = PlacementRule::FromProto(role.placement());
    for (int replica = 0; replica < ReplicasAtStart(role); ++replica) {
      size_t index = slots.size();
      if (!role.colocation_group().empty()) {
        index = shared.emplace(std::pair(role.colocation_group(), replica), index).first->second;
      }
      if (index == slots.size()) slots.emplace_back();
      slots[index].members.push_back({role.role(), replica});
      TakeLargest(need, slots[index].need);
      if (slots[index].rule == nullptr) slots[index].rule = rule;
    }
  }
  return slots;
}

std::vector<Slot> LeastSlotsOf(const v1::JobSpec& spec) {
  std::vector<Slot> slots = SlotsOf(spec);
  for (const v1::RoleSpec& role : spec.roles()) {
    if (PolicyOf(role) != v1::ELASTIC) continue;
    const int least = BoundsOf(role).min;
    std::erase_if(slots, [&](const Slot& slot) {
      return slot.members[0].role == role.role() && slot.members[0].replica >= least;
    });
  }
  return slots;
}

absl::Status CheckJobSpec(const v1::JobSpec& spec) {
  TROUPE_RETURN_IF_ERROR(CheckName(spec.name()));
  if (spec.roles().empty() || spec.roles_size() > kRolesMax) {
    return Bad(absl::StrCat("a job has 1 to ", kRolesMax, " roles, this one has ", spec.roles_size()));
  }
  if (spec.output_dir().empty() || spec.output_dir()[0] != '/') {
    return Bad(absl::StrCat("output_dir is '", spec.output_dir(), "': it must be an absolute path"));
  }
  if (spec.config_json().size() > kConfigBytesMax) {
    return Bad(absl::StrCat("config_json has ", spec.config_json().size(), " bytes: at most ", kConfigBytesMax));
  }
  TROUPE_RETURN_IF_ERROR(CheckDuration("stop_grace_ms", spec.stop_grace_ms()));
  TROUPE_RETURN_IF_ERROR(CheckDuration("hang_timeout_ms", spec.hang_timeout_ms()));
  std::set<std::string> names;
  int64_t replicas = 0;
  for (const v1::RoleSpec& role : spec.roles()) {
    TROUPE_RETURN_IF_ERROR(Annotate(CheckRole(role), absl::StrCat("role '", role.role(), "'")));
    if (!names.insert(role.role()).second) return Bad(absl::StrCat("role '", role.role(), "' is given twice"));
    replicas += role.replicas();
  }
  if (replicas > kReplicasMax) {
    return Bad(absl::StrCat("the roles have ", replicas, " replicas in all: at most ", kReplicasMax));
  }
  TROUPE_RETURN_IF_ERROR(CheckGroupPolicies(spec));
  TROUPE_RETURN_IF_ERROR(CheckPlacementRules(spec));
  return CheckGroups(spec);
}

}  // namespace troupe::scheduler
