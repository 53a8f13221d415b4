// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/tool_source.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/temporary_folder.h"

namespace troupe::device {
namespace {

// A folder that is first in PATH.
class Tools {
 public:
  Tools() : folder_(TemporaryFolder::Make("tools").value()), path_(EnvironmentVariable("PATH")) {
    ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~Tools() { ::setenv("PATH", path_.c_str(), 1); }
  void Add(const std::string& name, const std::string& script) const {
    REQUIRE(WriteFileAtomic(folder_.path() + "/" + name, "#!/bin/sh\n" + script, 0755).ok());
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

TEST_CASE("Tools: what one prints is taken, and its failures are told apart", "[device]") {
  Tools tools;
  tools.Add("talks", "echo one; echo two");
  tools.Add("fails", "echo broken >&2; exit 3");
  tools.Add("floods", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done");
  tools.Add("hangs", "echo x; sleep 1000");
  CHECK(RunTool({"talks"}, absl::Seconds(10)).value() == "one\ntwo\n");
  CHECK(absl::IsNotFound(RunTool({"none-such-tool"}, absl::Seconds(10)).status()));
  const absl::Status failed = RunTool({"fails"}, absl::Seconds(10)).status();
  CHECK(absl::IsFailedPrecondition(failed));
  CHECK(failed.message().find("exit status 3: broken") != absl::string_view::npos);
  CHECK(absl::IsResourceExhausted(RunTool({"floods"}, absl::Seconds(20)).status()));
  const Monotonic began = MonotonicNow();
  CHECK(absl::IsDeadlineExceeded(RunTool({"hangs"}, absl::Milliseconds(100)).status()));
  CHECK(MonotonicNow() - began < absl::Seconds(10));
}

TEST_CASE("Tools: each kind asks its own, and tells when there is none or no device", "[device]") {
  Tools tools;
  const DevicePlaces places{.sys = tools.path(), .dev = tools.path()};
  CHECK(absl::IsNotFound(FindKunlunDevices(places).status()));
  CHECK(absl::IsNotFound(FindAscendDevices(places).status()));
  CHECK(absl::IsNotFound(FindPpuDevices(places).status()));
  tools.Add("ppu-smi",
            "[ \"$1\" = --query-gpu=index,uuid,name,pci.bus_id,memory.total ] || exit 1\n"
            "echo '0, GPU-1, PPU-ZW810E, 00000000:08:00.0, 97871'");
  REQUIRE(MakeDirs(tools.path() + "/bus/pci/devices/0000:08:00.0").ok());
  REQUIRE(WriteFileAtomic(tools.path() + "/bus/pci/devices/0000:08:00.0/numa_node", "1\n").ok());
  std::unique_ptr<DeviceSource> ppu = FindPpuDevices(places).value();
  CHECK(ppu->found()[0].device.numa_node() == 1);
  tools.Add("xpu-smi", "echo 'The following argument was not expected: -m'; exit 106");  // Intel's tool of that name.
  CHECK(absl::IsFailedPrecondition(FindKunlunDevices(places).status()));
  REQUIRE(WriteFileAtomic(tools.path() + "/davinci0", "").ok());
  CHECK(FindAscendDevices(places).value()->found().size() == 1);
  tools.Add("npu-smi", "echo no devices");
  CHECK(FindAscendDevices(places).value()->found().size() == 1);
}

}  // namespace
}  // namespace troupe::device
