// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/device_report.h"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>

namespace troupe::scheduler {
namespace {

v1::RegisterNode NodeWith(int devices) {
  v1::RegisterNode node;
  node.set_node_id("n1");
  node.mutable_resources()->set_devices(devices);
  node.mutable_resources()->set_device_kind("sim");
  for (int i = 0; i < devices; ++i) {
    v1::Device& device = *node.add_devices();
    device.set_index(i);
    device.set_kind("sim");
    device.set_id("sim-" + std::to_string(i));
    device.set_numa_node(-1);
    device.set_island(-1);
    device.mutable_health()->set_state(v1::DeviceHealth::HEALTHY);
  }
  return node;
}

TEST_CASE("Device report: a node that lists its devices, or none of them, is believed", "[devices]") {
  CHECK(CheckDevices(NodeWith(0)).ok());
  CHECK(CheckDevices(NodeWith(8)).ok());
  v1::RegisterNode counted = NodeWith(8);
  counted.clear_devices();
  CHECK(CheckDevices(counted).ok());
}

TEST_CASE("Device report: what cannot be is refused with the node, the device and the mistake", "[devices]") {
  struct Case {
    std::function<void(v1::RegisterNode&)> mistake;
    std::string said;
  };
  const Case cases[] = {
      {[](auto& n) { n.mutable_devices()->RemoveLast(); }, "node n1 reports 4 devices, but lists 3"},
      {[](auto& n) { n.mutable_devices(2)->set_index(1); }, "node n1 reports device 2 with the number 1"},
      {[](auto& n) { n.mutable_devices(3)->set_id("sim-0"); }, "devices 0 and 3 with the same id 'sim-0'"},
      {[](auto& n) { n.mutable_devices(1)->set_kind("gpu"); }, "device 1 of the unknown kind 'gpu'"},
      {[](auto& n) { n.mutable_devices(1)->set_kind("cuda"); },
       "device 1 of kind cuda, but its resources are of kind 'sim'"},
      {[](auto& n) { n.mutable_resources()->set_device_kind("tpu"); }, "devices of the unknown kind 'tpu'"},
      {[](auto& n) { n.mutable_devices(0)->set_memory_bytes(-1); }, "device 0 with -1 bytes of memory"},
      {[](auto& n) { n.mutable_devices(0)->set_memory_bytes(int64_t{1} << 60); }, "bytes of memory; at most"},
      {[](auto& n) { n.mutable_devices(0)->set_numa_node(5000); }, "device 0 on NUMA node 5000"},
      {[](auto& n) { n.mutable_devices(0)->set_island(4); }, "device 0 in island 4 of 4 devices"},
      {[](auto& n) { n.mutable_devices(0)->set_model(std::string(1000, 'x')); }, "device 0 with a text of 1000 bytes"},
      {[](auto& n) { (*n.mutable_resources()->mutable_custom())["licence"] = -1; }, "-1 of the resource 'licence'"},
      {[](auto& n) {
         (*n.mutable_resources()->mutable_custom())["licence"] = std::numeric_limits<double>::quiet_NaN();
       },
       "nan of the resource 'licence'"},
  };
  for (const Case& c : cases) {
    v1::RegisterNode node = NodeWith(4);
    c.mistake(node);
    const absl::Status status = CheckDevices(node);
    INFO(c.said << " in: " << status.message());
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find(c.said) != absl::string_view::npos);
  }
}

TEST_CASE("Device report: a change of a device that the node has not, or of another one in its place, is refused",
          "[devices]") {
  const v1::RegisterNode node = NodeWith(2);
  v1::Device device = node.devices(1);
  device.mutable_health()->set_state(v1::DeviceHealth::FAILED);
  CHECK(CheckDeviceChanged(node, device).ok());
  device.set_index(2);
  CHECK(CheckDeviceChanged(node, device).message() == "node n1 reports a change of device 2; it has listed 2");
  device.set_index(0);
  CHECK(CheckDeviceChanged(node, device).message().find("as another one: 'sim-1'") != absl::string_view::npos);
}

TEST_CASE("Device report: a failed device has nothing left, also when what was held of it is given back", "[devices]") {
  v1::RegisterNode node = NodeWith(2);
  node.mutable_devices(1)->mutable_health()->set_state(v1::DeviceHealth::FAILED);
  NodeCapacity capacity{.node = NodeId("n1"),
                        .total = {.milli_cpus = 8000, .devices = 2, .device_kind = "sim"},
                        .device_used = {0, kSharesPerDevice}};
  WithholdFailedDevices(node, capacity);
  const Amount one{.milli_cpus = 1, .devices = 1};
  GiveBack(one, {1}, capacity);
  std::vector<int> devices;
  REQUIRE(FitsOn(one, capacity, &devices));
  CHECK(devices == std::vector<int>{0});
  CHECK_FALSE(FitsOn({.milli_cpus = 1, .devices = 2}, capacity, nullptr));
  devices.clear();
  REQUIRE(FitsOn({.milli_cpus = 1, .device_shares = 1}, capacity, &devices));
  CHECK(devices == std::vector<int>{0});
}

}  // namespace
}  // namespace troupe::scheduler
