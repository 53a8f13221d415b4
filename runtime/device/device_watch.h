// SPDX-License-Identifier: Apache-2.0
// DeviceWatch: looks at the devices of a node again and again and tells what has changed.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/monotonic.h"
#include "runtime/device/node_devices.h"

namespace troupe::device {

class DeviceWatch {
 public:
  // Between two looks. What a driver tells by events is kept by it until the next look.
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  // A driver that has not answered for so long does not answer.
  static constexpr absl::Duration kPatience = absl::Seconds(60);
  // How long the end waits for a look that is under way; one that hangs in the kernel is left behind.
  static constexpr absl::Duration kEndPatience = absl::Seconds(2);

  // The number of a device and how it is now, when that has changed. Called on the watch's thread, one at a time, or
  // within CheckLate.
  using Sink = std::function<void(int, const v1::DeviceHealth&)>;

  DeviceWatch(NodeDevices devices, Sink sink, absl::Duration interval = kInterval, absl::Duration patience = kPatience);
  // The sink is not called any more when it returns.
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  // RESOURCE_EXHAUSTED: there was no thread for it, so nothing is told.
  const absl::Status& status() const { return status_; }

  // Now and then, from any thread but the sink's: tells that every device has failed when the driver has not answered
  // for kPatience.
  void CheckLate(Monotonic now);

 private:
  struct Shared;
  static void Look(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
  absl::Status status_;
};

}  // namespace troupe::device
