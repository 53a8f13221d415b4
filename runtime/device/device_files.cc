// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device_files.h"

#include "runtime/env/file.h"

namespace troupe::device {
namespace {

class DeviceFiles : public DeviceSource {
 public:
  DeviceFiles(const std::string& kind, const std::string& prefix, int count) : prefix_(prefix) {
    for (int i = 0; i < count; ++i) found_.push_back(PlainDevice(kind, i));
  }
  const std::vector<FoundDevice>& found() const override { return found_; }
  std::vector<v1::DeviceHealth> Health() override {
    std::vector<v1::DeviceHealth> health;
    for (size_t i = 0; i < found_.size(); ++i) {
      const std::string file = prefix_ + std::to_string(i);
      health.push_back(FileExists(file) ? Healthy() : Failed(file + " is gone"));
    }
    return health;
  }

 private:
  const std::string prefix_;
  std::vector<FoundDevice> found_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceSource>> CountDeviceFiles(const std::string& kind, const std::string& prefix) {
  int count = 0;
  while (count < kDevicesMax && FileExists(prefix + std::to_string(count))) ++count;
  if (count == 0) return absl::NotFoundError("there is no " + prefix + "0");
  return std::make_unique<DeviceFiles>(kind, prefix, count);
}

}  // namespace troupe::device
