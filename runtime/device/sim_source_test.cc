// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/sim_source.h"

#include <catch2/catch.hpp>

#include "runtime/env/file.h"
#include "runtime/env/temporary_folder.h"

namespace troupe::device {
namespace {

TEST_CASE("Sim devices: count, memory, islands and NUMA nodes as they were asked for", "[device]") {
  const SimDevices sim = ParseSimDevices("8,memory=80GiB,island=4,numa=2").value();
  std::unique_ptr<DeviceSource> source = MakeSimDevices(sim, "");
  REQUIRE(source->found().size() == 8);
  const v1::Device& last = source->found()[7].device;
  CHECK(last.index() == 7);
  CHECK(last.memory_bytes() == int64_t{80} << 30);
  CHECK(last.island() == 1);
  CHECK(last.numa_node() == 3);
  CHECK(last.id() == "sim-7");
  std::unique_ptr<DeviceSource> plain = MakeSimDevices(ParseSimDevices("1").value(), "");
  CHECK(plain->found()[0].device.island() == -1);
  CHECK(plain->found()[0].device.numa_node() == -1);
  CHECK(plain->found()[0].device.memory_bytes() == 0);
}

TEST_CASE("Sim devices: a wrong part is named, with what it may be", "[device]") {
  struct Case {
    const char* text;
    const char* said;
  };
  for (const Case& c : {Case{"", "''"},
                        {"x", "'x'"},
                        {"-1", "'-1'"},
                        {"1025", "up to 1024"},
                        {"8,memory=", "'memory='"},
                        {"8,memory=80 bananas", "'memory=80 bananas'"},
                        {"8,memory=-1GiB", "up to 1TiB"},
                        {"8,island=0", "'island=0'"},
                        {"8,numa=x", "'numa=x'"},
                        {"8,islands=4", "did you mean 'island'"},
                        {"8,", "''"},
                        {"1x", "'1x'"}}) {
    CAPTURE(c.text);
    const absl::Status status = ParseSimDevices(c.text).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find(c.said) != absl::string_view::npos);
  }
}

TEST_CASE("Sim devices: the health file makes them ill and well again", "[device]") {
  const TemporaryFolder folder = TemporaryFolder::Make("sim-devices").value();
  const std::string file = folder.path() + "/sim_devices";
  std::unique_ptr<DeviceSource> source = MakeSimDevices({.count = 4}, file);
  CHECK(source->Health()[3].state() == v1::DeviceHealth::HEALTHY);
  REQUIRE(WriteFileAtomic(file, "3 xid 79\n0 xid 13\n1 degraded too hot\n2 failed\nnonsense\n9 failed x\n").ok());
  std::vector<v1::DeviceHealth> health = source->Health();
  CHECK(health[0].state() == v1::DeviceHealth::HEALTHY);
  CHECK(health[1].state() == v1::DeviceHealth::DEGRADED);
  CHECK(health[1].reason() == "too hot");
  CHECK(health[2].state() == v1::DeviceHealth::FAILED);
  CHECK(health[3].state() == v1::DeviceHealth::FAILED);
  CHECK(health[3].reason() == "Xid 79: the GPU has fallen off the bus");
  REQUIRE(WriteFileAtomic(file, "3 xid 79\n3 healthy\n").ok());
  health = source->Health();
  CHECK(health[2].state() == v1::DeviceHealth::HEALTHY);
  CHECK(health[3].state() == v1::DeviceHealth::HEALTHY);
}

}  // namespace
}  // namespace troupe::device
