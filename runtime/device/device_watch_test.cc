// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device_watch.h"

#include <catch2/catch.hpp>
#include <mutex>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/temporary_folder.h"
#include "runtime/env/testing/eventually.h"

namespace troupe::device {
namespace {

// What a watch has told, in order: "3 FAILED Xid 79: ..."
class Told {
 public:
  DeviceWatch::Sink Sink() {
    return [this](int index, const v1::DeviceHealth& health) {
      std::lock_guard lock(mutex_);
      lines_.push_back(std::to_string(index) + " " + v1::DeviceHealth::State_Name(health.state()) + " " +
                       health.reason());
    };
  }
  std::vector<std::string> Lines() {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_CASE("Device watch: what changes is told once, what stays is not", "[device]") {
  const TemporaryFolder folder = TemporaryFolder::Make("device-watch").value();
  const std::string file = folder.path() + "/sim_devices";
  Told told;
  DeviceWatch watch(NodeDevices::Find("sim:4", {.sim_health_file = file}).value(), told.Sink(), absl::Milliseconds(5));
  REQUIRE(WriteFileAtomic(file, "2 xid 79\n1 xid 13\n").ok());
  REQUIRE(Eventually([&] { return told.Lines().size() == 1; }));
  REQUIRE(WriteFileAtomic(file, "2 xid 79\n2 healthy\n0 degraded slow\n").ok());
  REQUIRE(Eventually([&] { return told.Lines().size() >= 3; }));
  CHECK(told.Lines() ==
        std::vector<std::string>{"2 FAILED Xid 79: the GPU has fallen off the bus", "0 DEGRADED slow", "2 HEALTHY "});
}

// The health file is a pipe that nobody writes to: a look at it hangs, as a driver may.
TEST_CASE("Device watch: a driver that does not answer fails its devices, and holds up nobody's end", "[device]") {
  const TemporaryFolder folder = TemporaryFolder::Make("device-watch").value();
  const std::string pipe = folder.path() + "/sim_devices";
  Told told;
  NodeDevices devices = NodeDevices::Find("sim:2", {.sim_health_file = pipe}).value();
  REQUIRE(std::system(("mkfifo " + pipe).c_str()) == 0);
  const Monotonic began = MonotonicNow();
  {
    DeviceWatch watch(std::move(devices), told.Sink(), absl::Milliseconds(1), absl::Seconds(30));
    watch.CheckLate(began);
    CHECK(told.Lines().empty());
    REQUIRE(Eventually([&] {
      watch.CheckLate(MonotonicNow() + absl::Minutes(1));
      return told.Lines().size() == 2;
    }));
    watch.CheckLate(MonotonicNow() + absl::Minutes(2));
  }
  CHECK(told.Lines() == std::vector<std::string>{"0 FAILED the driver has not answered for 30s",
                                                 "1 FAILED the driver has not answered for 30s"});
  // Lets the look that was left behind end.
  CHECK(std::system(("echo > " + pipe).c_str()) == 0);
}

}  // namespace
}  // namespace troupe::device
