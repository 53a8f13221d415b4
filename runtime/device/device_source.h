// SPDX-License-Identifier: Apache-2.0
// DeviceSource: the devices of one kind on this machine, and how they are. Made by a kind's entry in device_kinds.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "troupe/v1/common.pb.h"

namespace troupe::device {

// Where devices are looked for. Tests name other places.
struct DevicePlaces {
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string sim_health_file;  // "": simulated devices are always healthy.
  // Of this process: which devices it may see itself.
  std::map<std::string, std::string> environment;
};

// A kind has at most so many on one node; more is a mistake of what was asked.
inline constexpr int kDevicesMax = 1024;

struct FoundDevice {
  v1::Device device;
  // As the kind's visible-devices variable names it.
  std::string visible_name;
};

// A healthy one of which nothing but its number is known.
FoundDevice PlainDevice(const std::string& kind, int index);

// Not thread-safe, but one thread may make it and another use it.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;

  // All of the machine, in the order in which the kind's own software numbers them; device.index is that number.
  virtual const std::vector<FoundDevice>& found() const = 0;

  // How each of them is now, in the same order. It may take as long as the driver or the tool takes (a tool is killed
  // after kToolTimeout). A FAILED device stays so for as long as the source lives, but for simulated ones.
  virtual std::vector<v1::DeviceHealth> Health() = 0;
};

v1::DeviceHealth Healthy();
v1::DeviceHealth Degraded(const std::string& reason);
v1::DeviceHealth Failed(const std::string& reason);
// The worse of the two; of equals `a`.
v1::DeviceHealth Worse(const v1::DeviceHealth& a, const v1::DeviceHealth& b);

}  // namespace troupe::device
