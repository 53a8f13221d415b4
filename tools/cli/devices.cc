// SPDX-License-Identifier: Apache-2.0
// troupe devices: every device of every node, how it is, and who holds it.
#include <map>

#include "tools/cli/commands.h"
#include "tools/cli/lists.h"
#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

std::string HealthText(const v1::Device& device) {
  switch (device.health().state()) {
    case v1::DeviceHealth::HEALTHY:
      return "healthy";
    case v1::DeviceHealth::DEGRADED:
      return "degraded";
    case v1::DeviceHealth::FAILED:
      return "failed";
    default:
      return "-";
  }
}

std::string NumberText(int number) { return number < 0 ? "-" : std::to_string(number); }

std::string HoldersText(const v1::DeviceUse& use) {
  std::string text;
  for (const v1::ActorId& actor : use.holders()) {
    text += (text.empty() ? "" : ", ") + actor.job_id() + "/" + actor.role() + "/" + std::to_string(actor.replica());
  }
  return text.empty() ? "-" : text;
}

std::string ShareText(double share) {
  char text[16];
  std::snprintf(text, sizeof(text), "%g%%", share * 100);
  return text;
}

// Why it is as it is: what its node says, or why the head gives it to nobody.
std::string ReasonText(const v1::Device& device, const v1::DeviceUse& use) {
  const std::string& reason = use.quarantined().empty() ? device.health().reason() : use.quarantined();
  return reason.empty() ? "-" : reason;
}

// Those that a node does not list are known by their number and kind.
std::vector<v1::Device> DevicesOf(const v1::Node& node) {
  std::vector<v1::Device> devices(node.devices().begin(), node.devices().end());
  for (int index = static_cast<int>(devices.size()); index < node.total().devices(); ++index) {
    v1::Device& device = devices.emplace_back();
    device.set_index(index);
    device.set_kind(node.total().device_kind());
    device.set_numa_node(-1);
    device.set_island(-1);
  }
  return devices;
}

std::string DevicesTable(const v1::ListNodesResponse& response, bool wide) {
  std::vector<std::string> columns = {"NODE",   "DEVICE", "KIND", "MODEL",   "MEMORY",
                                      "ISLAND", "HEALTH", "USED", "HOLDERS", "WHY"};
  if (wide) columns.insert(columns.end(), {"ID", "PCI", "NUMA", "MEMORY USED"});
  TextTable table(columns);
  for (const v1::Node& node : response.nodes()) {
    std::map<int, v1::DeviceUse> uses;
    for (const v1::DeviceUse& use : node.device_use()) uses[use.index()] = use;
    for (const v1::Device& device : DevicesOf(node)) {
      const v1::DeviceUse& use = uses[device.index()];
      auto known = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
      auto bytes = [](int64_t count) { return count == 0 ? std::string("-") : ShortBytes(static_cast<double>(count)); };
      std::vector<std::string> row = {
          node.node_id(),         std::to_string(device.index()), device.kind(),
          known(device.model()),  bytes(device.memory_bytes()),   NumberText(device.island()),
          HealthText(device),     ShareText(use.share()),         HoldersText(use),
          ReasonText(device, use)};
      if (wide) {
        row.insert(row.end(), {known(device.id()), known(device.pci_address()), NumberText(device.numa_node()),
                               bytes(use.memory_bytes())});
      }
      table.Add(row);
    }
  }
  return table.ToText();
}

// Only nodes with devices, and of those only what concerns them.
v1::ListNodesResponse OnlyDevices(const v1::ListNodesResponse& all) {
  v1::ListNodesResponse some;
  for (const v1::Node& node : all.nodes()) {
    if (node.total().devices() == 0) continue;
    v1::Node& kept = *some.add_nodes();
    kept.set_node_id(node.node_id());
    kept.set_state(node.state());
    for (v1::Device& device : DevicesOf(node)) *kept.add_devices() = std::move(device);
    *kept.mutable_device_use() = node.device_use();
  }
  return some;
}

}  // namespace

int DevicesCommand(const Options& options, SignalWaiter& signals) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  return Show(options, signals, [&]() -> absl::StatusOr<std::string> {
    TROUPE_ASSIGN_OR_RETURN(v1::ListNodesResponse response,
                            head->Call(&v1::Head::Stub::ListNodes, v1::ListNodesRequest()));
    if (WantsMachine(options)) return Machine(OnlyDevices(response), options.output);
    return DevicesTable(response, options.output == "wide");
  });
}

}  // namespace troupe::cli
