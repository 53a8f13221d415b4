// SPDX-License-Identifier: Apache-2.0
// Xids: the error numbers of NVIDIA's driver, and whose fault each is.
// Source: NVIDIA, "Xid Errors", the catalog of Xids with their resolution buckets
// (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html).
#pragma once

#include <cstdint>
#include <string>

#include "troupe/v1/common.pb.h"

namespace troupe::device {

enum class XidFault {
  kProgram,  // The process that used the GPU did it, or was ended for another's error: the device is as good as before.
  kDevice,   // The GPU, its memory, its links or its firmware: nothing more may run on it before it was reset or looked
             // at.
  kWarning,  // The device's, but what runs goes on: it is to be reset when that is convenient.
  kUnknown,  // Not in the table: told, not acted on.
};

struct Xid {
  int number = 0;
  XidFault fault = XidFault::kUnknown;
  const char* what = "";
};

// Pure.
Xid XidOf(uint64_t number);

// What one means for the device: kProgram and kUnknown leave it healthy. "Xid 79: the GPU has fallen off the bus".
v1::DeviceHealth HealthAfterXid(uint64_t number);

}  // namespace troupe::device
