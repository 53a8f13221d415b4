// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_source.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "runtime/env/file.h"
#include "runtime/env/temporary_folder.h"

namespace troupe::device {
namespace {

// A machine that the library of testing/fake_nvml.cc plays.
class Machine {
 public:
  Machine() : folder_(TemporaryFolder::Make("nvml").value()) {
    ::setenv("FAKE_NVML", path("machine").c_str(), 1);
    places.nvml_library = "runtime/device/libfake_nvml.so";
    places.sys = folder_.path();
    places.dev = folder_.path();
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void Write(const std::string& text) {
    text_ = text;
    REQUIRE(WriteFileAtomic(path("machine"), text_).ok());
  }
  void Add(const std::string& lines) { Write(text_ + lines); }

  DevicePlaces places;

 private:
  TemporaryFolder folder_;
  std::string text_;
};

constexpr char kFourGpus[] =
    "gpu GPU-aa NVIDIA-H200 150754820096 00000000:1B:00.0\n"
    "gpu GPU-bb NVIDIA-H200 150754820096 00000000:2C:00.0\n"
    "gpu GPU-cc NVIDIA-H200 150754820096 00000000:3D:00.0\n"
    "gpu GPU-dd NVIDIA-H200 150754820096 00000000:4E:00.0\n";

TEST_CASE("CUDA devices: NVML tells ids, models, memory and addresses, the kernel the NUMA nodes", "[device]") {
  Machine machine;
  machine.Write(kFourGpus);
  REQUIRE(MakeDirs(machine.path("bus/pci/devices/0000:2c:00.0")).ok());
  REQUIRE(WriteFileAtomic(machine.path("bus/pci/devices/0000:2c:00.0/numa_node"), "1\n").ok());
  std::unique_ptr<DeviceSource> source = FindCudaDevices(machine.places).value();
  REQUIRE(source->found().size() == 4);
  const FoundDevice& second = source->found()[1];
  CHECK(second.device.index() == 1);
  CHECK(second.device.kind() == "cuda");
  CHECK(second.device.id() == "GPU-bb");
  CHECK(second.visible_name == "GPU-bb");
  CHECK(second.device.model() == "NVIDIA-H200");
  CHECK(second.device.memory_bytes() == 150754820096);
  CHECK(second.device.pci_address() == "0000:2c:00.0");
  CHECK(second.device.numa_node() == 1);
  CHECK(source->found()[0].device.numa_node() == -1);
  CHECK(second.device.island() == -1);
  CHECK(second.device.health().state() == v1::DeviceHealth::HEALTHY);
}

TEST_CASE("CUDA devices: NVLinks between GPUs and over switches make islands", "[device]") {
  Machine machine;
  machine.Write(std::string(kFourGpus) + "link 0 0 00000000:3D:00.0\nlink 2 1 00000000:1B:00.0\n");
  std::unique_ptr<DeviceSource> pair = FindCudaDevices(machine.places).value();
  std::vector<int> islands;
  for (const FoundDevice& found : pair->found()) islands.push_back(found.device.island());
  CHECK(islands == std::vector<int>{0, -1, 0, -1});
  machine.Write(std::string(kFourGpus) + "switch 0 0\nswitch 1 3\nswitch 2 0\nswitch 3 17\n");
  std::unique_ptr<DeviceSource> all = FindCudaDevices(machine.places).value();
  for (const FoundDevice& found : all->found()) CHECK(found.device.island() == 0);
}

TEST_CASE("CUDA devices: a hardware Xid fails its GPU for good, a program's Xid does nothing", "[device]") {
  Machine machine;
  machine.Write(kFourGpus);
  std::unique_ptr<DeviceSource> source = FindCudaDevices(machine.places).value();
  machine.Add("xid 0 31\nxid 1 79\nxid 2 63\nxid 3 43\n");
  std::vector<v1::DeviceHealth> health = source->Health();
  CHECK(health[0].state() == v1::DeviceHealth::HEALTHY);
  CHECK(health[1].state() == v1::DeviceHealth::FAILED);
  CHECK(health[1].reason() == "Xid 79: the GPU has fallen off the bus");
  CHECK(health[2].state() == v1::DeviceHealth::DEGRADED);
  CHECK(health[3].state() == v1::DeviceHealth::HEALTHY);
  CHECK(source->Health()[1].state() == v1::DeviceHealth::FAILED);
  CHECK(source->Health()[2].state() == v1::DeviceHealth::DEGRADED);
}

TEST_CASE("CUDA devices: new uncorrected errors, a failed remapping and a lost GPU are failures", "[device]") {
  Machine machine;
  machine.Write(std::string(kFourGpus) + "ecc 0 2\n");
  std::unique_ptr<DeviceSource> source = FindCudaDevices(machine.places).value();
  // Those of before are no reason to give the GPU up.
  CHECK(source->found()[0].device.health().state() == v1::DeviceHealth::DEGRADED);
  machine.Write(std::string(kFourGpus) + "ecc 0 5\nremap 1 0 1\nremap 2 1 0\nlost 3\n");
  std::vector<v1::DeviceHealth> health = source->Health();
  CHECK(health[0].reason() == "3 uncorrected memory errors");
  CHECK(health[0].state() == v1::DeviceHealth::FAILED);
  CHECK(health[1].state() == v1::DeviceHealth::FAILED);
  CHECK(health[2].state() == v1::DeviceHealth::DEGRADED);
  CHECK(health[3].state() == v1::DeviceHealth::FAILED);
  machine.Write(kFourGpus);
  health = source->Health();
  CHECK(health[3].state() == v1::DeviceHealth::FAILED);
  CHECK(health[2].state() == v1::DeviceHealth::HEALTHY);
}

TEST_CASE("CUDA devices: throttling that lasts degrades, a moment of it or a power setting does not", "[device]") {
  Machine machine;
  machine.Write(std::string(kFourGpus) + "throttle 0 64\nthrottle 1 5\n");
  std::unique_ptr<DeviceSource> source = FindCudaDevices(machine.places).value();
  CHECK(source->Health()[0].state() == v1::DeviceHealth::HEALTHY);
  for (int look = 0; look < 4; ++look) source->Health();
  CHECK(source->Health()[0].reason() == "throttled: too hot (hardware slowdown)");
  CHECK(source->Health()[0].state() == v1::DeviceHealth::DEGRADED);
  CHECK(source->Health()[1].state() == v1::DeviceHealth::HEALTHY);
  machine.Write(kFourGpus);
  CHECK(source->Health()[0].state() == v1::DeviceHealth::HEALTHY);
}

TEST_CASE("CUDA devices: without the library device files are counted; a driver that does not answer is told",
          "[device]") {
  Machine machine;
  DevicePlaces places = machine.places;
  places.nvml_library = "libnone-such.so.1";
  CHECK(absl::IsNotFound(FindCudaDevices(places).status()));
  for (int i : {0, 1, 3}) REQUIRE(WriteFileAtomic(machine.path("nvidia" + std::to_string(i)), "").ok());
  std::unique_ptr<DeviceSource> source = FindCudaDevices(places).value();
  REQUIRE(source->found().size() == 2);
  CHECK(source->found()[1].visible_name == "1");
  REQUIRE(RemoveTree(machine.path("nvidia1")).ok());
  CHECK(source->Health()[1].state() == v1::DeviceHealth::FAILED);
  machine.Write("broken\n");
  const absl::Status broken = FindCudaDevices(machine.places).status();
  CHECK(absl::IsFailedPrecondition(broken));
  CHECK(broken.message().find("Driver Not Loaded") != absl::string_view::npos);
}

}  // namespace
}  // namespace troupe::device
