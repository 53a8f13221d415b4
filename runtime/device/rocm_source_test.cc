// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/rocm_source.h"

#include <catch2/catch.hpp>

#include "runtime/env/file.h"
#include "runtime/env/temporary_folder.h"

namespace troupe::device {
namespace {

// A /sys of a machine with a processor (node 0) and GPUs (nodes 1, 2, ...), each linked by XGMI to `peers`.
class Machine {
 public:
  Machine() : folder_(TemporaryFolder::Make("rocm-sys").value()) {
    Write("class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
    Write("class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\nsimd_count 0\n");
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    const std::string full = path(name);
    REQUIRE(MakeDirs(full.substr(0, full.rfind('/'))).ok());
    REQUIRE(WriteFileAtomic(full, text).ok());
  }
  void AddGpu(int node, const std::vector<int>& peers) const {
    const std::string topology = "class/kfd/kfd/topology/nodes/" + std::to_string(node);
    const std::string minor = std::to_string(127 + node);
    Write(topology + "/gpu_id", std::to_string(1000 + node) + "\n");
    Write(topology + "/properties", "simd_count 304\nvendor_id 4098\ndevice_id 29857\nlocation_id " +
                                        std::to_string((0x10 + node) << 8) + "\ndomain 0\ndrm_render_minor " + minor +
                                        "\nunique_id " + std::to_string(0xabc0 + node) + "\n");
    Write(topology + "/io_links/0/properties", "type 2\nnode_to 0\n");  // PCIe, to the processor
    for (size_t i = 0; i < peers.size(); ++i) {
      Write(topology + "/io_links/" + std::to_string(i + 1) + "/properties",
            "type 11\nnode_from " + std::to_string(node) + "\nnode_to " + std::to_string(peers[i]) + "\n");
    }
    Write("class/drm/renderD" + minor + "/device/mem_info_vram_total", "206141652992\n");
    Write("class/drm/renderD" + minor + "/device/ras/umc_err_count", "ue: 0\nce: 2\n");
    Write("bus/pci/devices/0000:" + std::to_string(10 + node) + ":00.0/numa_node", "1\n");
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("ROCm devices: GPUs of the topology with their links, memory and addresses", "[device]") {
  Machine machine;
  CHECK(absl::IsNotFound(FindRocmDevices({.sys = machine.path("")}).status()));
  machine.AddGpu(1, {2});
  machine.AddGpu(2, {1});
  machine.AddGpu(3, {});
  // One that this process may not use shows no properties.
  machine.Write("class/kfd/kfd/topology/nodes/4/gpu_id", "1004\n");
  machine.Write("class/drm/renderD130/device/product_name", "AMD Instinct MI300X OAM\n");
  std::unique_ptr<DeviceSource> source = FindRocmDevices({.sys = machine.path("")}).value();
  REQUIRE(source->found().size() == 3);
  const v1::Device& first = source->found()[0].device;
  CHECK(first.kind() == "rocm");
  CHECK(first.id() == "GPU-000000000000abc1");
  CHECK(source->found()[0].visible_name == first.id());
  CHECK(first.memory_bytes() == 206141652992);
  CHECK(first.pci_address() == "0000:11:00.0");
  CHECK(first.numa_node() == 1);
  CHECK(first.model() == "AMD GPU 0x74a1");
  CHECK(source->found()[2].device.model() == "AMD Instinct MI300X OAM");
  CHECK(first.island() == 0);
  CHECK(source->found()[1].device.island() == 0);
  CHECK(source->found()[2].device.island() == -1);
  CHECK(first.health().state() == v1::DeviceHealth::HEALTHY);
}

TEST_CASE("ROCm devices: uncorrected errors and lost files fail a GPU for good, many corrected ones degrade it",
          "[device]") {
  Machine machine;
  for (int node : {1, 2, 3}) machine.AddGpu(node, {});
  std::unique_ptr<DeviceSource> source = FindRocmDevices({.sys = machine.path("")}).value();
  machine.Write("class/drm/renderD128/device/ras/gfx_err_count", "ue: 1\nce: 0\n");
  machine.Write("class/drm/renderD129/device/ras/umc_err_count", "ue: 0\nce: 5000\n");
  REQUIRE(RemoveTree(machine.path("class/drm/renderD130")).ok());
  std::vector<v1::DeviceHealth> health = source->Health();
  CHECK(health[0].state() == v1::DeviceHealth::FAILED);
  CHECK(health[0].reason() == "1 uncorrected errors (RAS)");
  CHECK(health[1].state() == v1::DeviceHealth::DEGRADED);
  CHECK(health[2].state() == v1::DeviceHealth::FAILED);
  machine.Write("class/drm/renderD128/device/ras/gfx_err_count", "ue: 0\nce: 0\n");
  CHECK(source->Health()[0].state() == v1::DeviceHealth::FAILED);
}

}  // namespace
}  // namespace troupe::device
