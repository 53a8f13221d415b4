// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/visible_devices.h"

#include <catch2/catch.hpp>

#include "runtime/device/pci.h"
#include "runtime/env/cpu_list.h"

namespace troupe::device {
namespace {

std::vector<FoundDevice> Gpus(const std::string& kind, const std::vector<std::string>& ids) {
  std::vector<FoundDevice> found;
  for (const std::string& id : ids) {
    found.push_back(PlainDevice(kind, static_cast<int>(found.size())));
    found.back().device.set_id(id);
    if (!id.empty()) found.back().visible_name = id;
  }
  return found;
}

std::vector<std::string> NamesOf(const std::vector<OfferedDevice>& devices) {
  std::vector<std::string> names;
  for (size_t i = 0; i < devices.size(); ++i) {
    CHECK(devices[i].found.device.index() == static_cast<int>(i));
    names.push_back(devices[i].found.visible_name);
  }
  return names;
}

TEST_CASE("Visible devices: an empty list of devices shows none, and a negative one ends it", "[device]") {
  CHECK(VisibleNames("").empty());
  CHECK(VisibleNames("-1").empty());
  CHECK(VisibleNames("NoDevFiles").empty());
  CHECK(VisibleNames("2,GPU-abc,-1,3") == std::vector<std::string>{"2", "GPU-abc"});
}

TEST_CASE("Visible devices: a node offers what its agent may see, in that order, by number or by id", "[device]") {
  const DeviceKind& cuda = *FindDeviceKind("cuda");
  const std::vector<FoundDevice> found = Gpus("cuda", {"GPU-aa", "GPU-bb", "GPU-cc"});
  using Names = std::vector<std::string>;
  CHECK(NamesOf(OfferedDevices(cuda, found, {})) == Names{"GPU-aa", "GPU-bb", "GPU-cc"});
  CHECK(NamesOf(OfferedDevices(cuda, found, {{"CUDA_VISIBLE_DEVICES", "2,0"}})) == Names{"GPU-cc", "GPU-aa"});
  CHECK(NamesOf(OfferedDevices(cuda, found, {{"CUDA_VISIBLE_DEVICES", "GPU-b"}})) == Names{"GPU-bb"});
  CHECK(NamesOf(OfferedDevices(cuda, found, {{"CUDA_VISIBLE_DEVICES", ""}})).empty());
  // As the driver does: what is not there ends the list.
  CHECK(NamesOf(OfferedDevices(cuda, found, {{"CUDA_VISIBLE_DEVICES", "1,7,0"}})) == Names{"GPU-bb"});
  // Parts of a GPU are in no list.
  std::vector<OfferedDevice> parts = OfferedDevices(cuda, found, {{"CUDA_VISIBLE_DEVICES", "MIG-11,MIG-12"}});
  CHECK(NamesOf(parts) == Names{"MIG-11", "MIG-12"});
  CHECK(parts[0].source_index == -1);
}

TEST_CASE("Visible devices: HIP counts within what ROCR left", "[device]") {
  const DeviceKind& rocm = *FindDeviceKind("rocm");
  const std::vector<FoundDevice> found = Gpus("rocm", {"GPU-a", "GPU-b", "GPU-c", "GPU-d"});
  const std::vector<OfferedDevice> offered =
      OfferedDevices(rocm, found, {{"ROCR_VISIBLE_DEVICES", "3,1,0"}, {"HIP_VISIBLE_DEVICES", "2,1"}});
  CHECK(NamesOf(offered) == std::vector<std::string>{"GPU-a", "GPU-b"});
  CHECK(offered[0].source_index == 0);
}

TEST_CASE("Visible devices: a worker sees its own and none of another kind", "[device]") {
  using Environment = std::map<std::string, std::string>;
  const Environment none = {{"ASCEND_RT_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", ""},
                            {"HIP_VISIBLE_DEVICES", ""},       {"ROCR_VISIBLE_DEVICES", ""},
                            {"TROUPE_SIM_DEVICES", ""},        {"XPU_VISIBLE_DEVICES", ""}};
  auto with = [&](const Environment& some) {
    Environment all = some;
    all.insert(none.begin(), none.end());
    return all;
  };
  CHECK(VisibleEnvironment("", {}) == none);
  CHECK(VisibleEnvironment("cuda", {}) == none);
  CHECK(VisibleEnvironment("cuda", {"GPU-a", "GPU-b"}) == with({{"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"}}));
  CHECK(VisibleEnvironment("ppu", {"3"}) == with({{"CUDA_VISIBLE_DEVICES", "3"}}));
  CHECK(VisibleEnvironment("rocm", {"GPU-c", "GPU-a"}) ==
        with({{"ROCR_VISIBLE_DEVICES", "GPU-c,GPU-a"}, {"HIP_VISIBLE_DEVICES", "0,1"}}));
  CHECK(VisibleEnvironment("ascend", {"4", "6"}) == with({{"ASCEND_RT_VISIBLE_DEVICES", "4,6"}}));
  CHECK(VisibleEnvironment("kunlun", {"1"}) == with({{"XPU_VISIBLE_DEVICES", "1"}, {"CUDA_VISIBLE_DEVICES", "1"}}));
  CHECK(VisibleEnvironment("sim", {"1", "3"}) == with({{"TROUPE_SIM_DEVICES", "1,3"}}));
}

TEST_CASE("Sysfs: PCI addresses and lists of processors are read as the kernel writes them", "[device]") {
  CHECK(PciAddress("00000000:1B:00.0") == "0000:1b:00.0");
  CHECK(PciAddress("9c:1f.7") == "0000:9c:1f.7");
  CHECK(PciAddress("10000:01:00.0") == "10000:01:00.0");
  for (const char* text :
       {"", "NA", "0000:1b:00", "1b", "0000:1b:20.0", "0000:1b:00.8", "0000:1b:00.0x", "::.", "-1:0.0"}) {
    CAPTURE(text);
    CHECK(PciAddress(text).empty());
  }
  CHECK(ParseCpuList("0-2,8\n") == std::vector<int>{0, 1, 2, 8});
  CHECK(CpuListText({0, 1, 2, 8, 10, 11}) == "0-2,8,10-11");
  for (const char* text : {"", "x", "3-1", "0-", "0,", "-1", "9000", "0-8191,0-8191"}) {
    CAPTURE(text);
    CHECK(ParseCpuList(text).empty());
  }
}

}  // namespace
}  // namespace troupe::device
