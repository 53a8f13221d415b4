// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/device_report.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "runtime/base/device_kind_names.h"

namespace troupe::scheduler {
namespace {

absl::Status CheckDevice(const v1::RegisterNode& node, int index, const v1::Device& device) {
  auto wrong = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("node ", node.node_id(), " reports device ", index, " ", what...));
  };
  const int count = node.resources().devices();
  if (device.index() != index) return wrong("with the number ", device.index());
  if (!IsDeviceKind(device.kind())) return wrong("of the unknown kind '", device.kind().substr(0, kNameBytesMax), "'");
  if (device.kind() != node.resources().device_kind()) {
    return wrong("of kind ", device.kind(), ", but its resources are of kind '", node.resources().device_kind(), "'");
  }
  if (device.memory_bytes() < 0 || device.memory_bytes() > kDeviceMemoryBytesMax) {
    return wrong("with ", device.memory_bytes(), " bytes of memory; at most ", kDeviceMemoryBytesMax, " can be");
  }
  if (device.numa_node() < -1 || device.numa_node() >= kNumaNodesMax) return wrong("on NUMA node ", device.numa_node());
  if (device.island() < -1 || device.island() >= count)
    return wrong("in island ", device.island(), " of ", count, " devices");
  for (const std::string* text : {&device.id(), &device.model(), &device.pci_address(), &device.health().reason()}) {
    if (text->size() > kDeviceTextBytesMax) return wrong("with a text of ", text->size(), " bytes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDevices(const v1::RegisterNode& node) {
  const v1::Resources& resources = node.resources();
  auto wrong = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("node ", node.node_id(), " reports ", what...));
  };
  if (!resources.device_kind().empty() && !IsDeviceKind(resources.device_kind())) {
    return wrong("devices of the unknown kind '", resources.device_kind().substr(0, kNameBytesMax), "'");
  }
  if (node.devices_size() > 0 && node.devices_size() != resources.devices()) {
    return wrong(resources.devices(), " devices, but lists ", node.devices_size());
  }
  std::map<std::string, int> ids;
  for (int i = 0; i < node.devices_size(); ++i) {
    const v1::Device& device = node.devices(i);
    if (absl::Status status = CheckDevice(node, i, device); !status.ok()) return status;
    if (device.id().empty()) continue;
    auto [other, is_new] = ids.emplace(device.id(), i);
    if (!is_new) return wrong("devices ", other->second, " and ", i, " with the same id '", device.id(), "'");
  }
  if (resources.custom_size() > kCustomResourcesMax) return wrong(resources.custom_size(), " further resources");
  for (const auto& [name, amount] : resources.custom()) {
    if (name.empty() || name.size() > kNameBytesMax || !(amount > 0 && amount <= kCustomAmountMax)) {
      return wrong(amount, " of the resource '", name.substr(0, kNameBytesMax), "'");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDeviceChanged(const v1::RegisterNode& node, const v1::Device& device) {
  if (device.index() < 0 || device.index() >= node.devices_size()) {
    return absl::InvalidArgumentError(absl::StrCat("node ", node.node_id(), " reports a change of device ",
                                                   device.index(), "; it has listed ", node.devices_size()));
  }
  if (device.id() != node.devices(device.index()).id()) {
    return absl::InvalidArgumentError(absl::StrCat("node ", node.node_id(), " reports device ", device.index(),
                                                   " as another one: '", device.id().substr(0, kNameBytesMax), "'"));
  }
  return CheckDevice(node, device.index(), device);
}

std::shared_ptr<const NodeFacts> FactsOf(const v1::RegisterNode& node) {
  auto facts = std::make_shared<NodeFacts>();
  facts->labels.insert(node.labels().begin(), node.labels().end());
  for (const v1::Device& device : node.devices()) {
    facts->device_memory_bytes.push_back(device.memory_bytes());
    facts->islands.push_back(device.island());
  }
  return facts;
}

void WithholdFailedDevices(const v1::RegisterNode& node, NodeCapacity& capacity) {
  for (const v1::Device& device : node.devices()) {
    const auto index = static_cast<size_t>(device.index());
    if (device.health().state() != v1::DeviceHealth::FAILED || index >= capacity.device_used.size()) continue;
    capacity.device_used[index] += kSharesPerDevice;
  }
}

}  // namespace troupe::scheduler
