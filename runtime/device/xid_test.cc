// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/xid.h"

#include <catch2/catch.hpp>

namespace troupe::device {
namespace {

TEST_CASE("Xid: what a program did leaves the device healthy", "[device]") {
  for (uint64_t number : {13, 31, 32, 43, 45, 68, 69, 109}) {
    CAPTURE(number);
    CHECK(XidOf(number).fault == XidFault::kProgram);
    CHECK(HealthAfterXid(number).state() == v1::DeviceHealth::HEALTHY);
  }
}

TEST_CASE("Xid: an error of the hardware fails the device, and its reason says which", "[device]") {
  for (uint64_t number : {48, 62, 64, 74, 79, 94, 95, 119, 120}) {
    CAPTURE(number);
    CHECK(HealthAfterXid(number).state() == v1::DeviceHealth::FAILED);
  }
  CHECK(HealthAfterXid(79).reason() == "Xid 79: the GPU has fallen off the bus");
}

TEST_CASE("Xid: what the hardware has mended itself makes the device the last choice", "[device]") {
  for (uint64_t number : {63, 92}) {
    CHECK(XidOf(number).fault == XidFault::kWarning);
    CHECK(HealthAfterXid(number).state() == v1::DeviceHealth::DEGRADED);
  }
}

TEST_CASE("Xid: an unknown number is told as unknown and blames nobody", "[device]") {
  for (uint64_t number : {uint64_t{0}, uint64_t{999}, ~uint64_t{0}}) {
    CHECK(XidOf(number).fault == XidFault::kUnknown);
    CHECK(HealthAfterXid(number).state() == v1::DeviceHealth::HEALTHY);
  }
}

}  // namespace
}  // namespace troupe::device
