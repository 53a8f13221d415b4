// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/node_devices.h"

#include <catch2/catch.hpp>

#include "runtime/env/file.h"
#include "runtime/env/temporary_folder.h"

namespace troupe::device {
namespace {

// A machine with `cuda` devices in /dev, nothing else; nothing of this machine's own is looked at.
struct Machine {
  TemporaryFolder folder = TemporaryFolder::Make("node-devices").value();
  DevicePlaces places{.sys = folder.path(), .dev = folder.path(), .nvml_library = "libnone-such.so.1"};
  explicit Machine(int cuda, int ascend = 0) {
    for (int i = 0; i < cuda; ++i) REQUIRE(WriteFileAtomic(File("nvidia", i), "").ok());
    for (int i = 0; i < ascend; ++i) REQUIRE(WriteFileAtomic(File("davinci", i), "").ok());
  }
  std::string File(const std::string& name, int i) const { return folder.path() + "/" + name + std::to_string(i); }
};

TEST_CASE("Node devices: auto takes what is there and may be seen", "[device]") {
  CHECK(NodeDevices::Find("auto", Machine(0).places)->empty());
  Machine machine(3);
  CHECK(NodeDevices::Find("auto", machine.places)->kind() == "cuda");
  CHECK(NodeDevices::Find("auto", machine.places)->devices().size() == 3);
  CHECK(NodeDevices::Find("none", machine.places)->empty());
  machine.places.environment["CUDA_VISIBLE_DEVICES"] = "2";
  CHECK(NodeDevices::Find("auto", machine.places)->devices()[0].found.visible_name == "2");
  machine.places.environment["CUDA_VISIBLE_DEVICES"] = "";
  NodeDevices hidden = NodeDevices::Find("auto", machine.places).value();
  CHECK(hidden.empty());
  REQUIRE(hidden.notes().size() == 1);
  CHECK(hidden.notes()[0] == "no cuda devices: CUDA_VISIBLE_DEVICES hides all 3");
}

TEST_CASE("Node devices: of several kinds one is chosen, and the node says which", "[device]") {
  Machine machine(2, 8);
  NodeDevices devices = NodeDevices::Find("auto", machine.places).value();
  CHECK(devices.kind() == "cuda");
  REQUIRE(devices.notes().size() == 1);
  CHECK(devices.notes()[0].find("cuda was chosen, its 8 of kind ascend are not used; --devices ascend") !=
        std::string::npos);
  CHECK(NodeDevices::Find("ascend", machine.places)->devices().size() == 8);
}

TEST_CASE("Node devices: some of a kind by number are numbered anew", "[device]") {
  Machine machine(4);
  NodeDevices devices = NodeDevices::Find("cuda:3,1", machine.places).value();
  REQUIRE(devices.devices().size() == 2);
  CHECK(devices.devices()[0].found.visible_name == "3");
  CHECK(devices.devices()[0].found.device.index() == 0);
  REQUIRE(RemoveTree(machine.File("nvidia", 1)).ok());
  CHECK(devices.Health()[0].state() == v1::DeviceHealth::HEALTHY);
  CHECK(devices.Health()[1].state() == v1::DeviceHealth::FAILED);
}

TEST_CASE("Node devices: a request that is wrong or cannot be met names what is wrong", "[device]") {
  Machine machine(2);
  struct Case {
    const char* request;
    absl::StatusCode code;
    const char* said;
  };
  for (const Case& c : {Case{"", absl::StatusCode::kInvalidArgument, "'' is no kind of device"},
                        {"gpu", absl::StatusCode::kInvalidArgument, "expected auto, none, ppu, cuda"},
                        {"cudo:1", absl::StatusCode::kInvalidArgument, "did you mean 'cuda'?"},
                        {"sim", absl::StatusCode::kInvalidArgument, "sim:8"},
                        {"sim:8,memory=x", absl::StatusCode::kInvalidArgument, "'memory=x'"},
                        {"cuda:x", absl::StatusCode::kInvalidArgument, "'x' is no number"},
                        {"cuda:", absl::StatusCode::kInvalidArgument, "'' is no number"},
                        {"cuda:0,0", absl::StatusCode::kInvalidArgument, "named twice"},
                        {"cuda:2", absl::StatusCode::kNotFound, "this machine offers 2"},
                        {"rocm", absl::StatusCode::kNotFound, "no AMD GPU"}}) {
    CAPTURE(c.request);
    const absl::Status status = NodeDevices::Find(c.request, machine.places).status();
    CHECK(status.code() == c.code);
    CAPTURE(std::string(status.message()));
    CHECK(status.message().find(c.said) != absl::string_view::npos);
  }
}

}  // namespace
}  // namespace troupe::device
