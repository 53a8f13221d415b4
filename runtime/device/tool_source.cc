// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/tool_source.h"

#include <algorithm>
#include <deque>

#include "runtime/base/status.h"
#include "runtime/device/device_files.h"
#include "runtime/device/pci.h"
#include "runtime/device/smi_text.h"
#include "runtime/env/child_program.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"

namespace troupe::device {
namespace {

constexpr size_t kToolBytesMax = 1 << 20;
// Starting a tool costs it a tenth of a second and more.
constexpr absl::Duration kToolLookInterval = absl::Seconds(10);

using Parse = std::vector<FoundDevice> (*)(std::string_view);

class ToolSource : public DeviceSource {
 public:
  ToolSource(std::vector<std::string> argv, Parse parse) : argv_(std::move(argv)), parse_(parse) {}

  absl::Status Open(const DevicePlaces& places) {
    TROUPE_ASSIGN_OR_RETURN(std::string text, RunTool(argv_, kToolTimeout));
    found_ = parse_(text);
    if (found_.empty()) return absl::NotFoundError(argv_[0] + " lists no device");
    for (FoundDevice& found : found_) {
      found.device.set_numa_node(NumaNodeOfPci(places.sys, found.device.pci_address()));
      health_.push_back(found.device.health());
    }
    looked_ = MonotonicNow();
    return absl::OkStatus();
  }

  const std::vector<FoundDevice>& found() const override { return found_; }

  std::vector<v1::DeviceHealth> Health() override {
    if (MonotonicNow() - looked_ < kToolLookInterval) return health_;
    const absl::StatusOr<std::string> text = RunTool(argv_, kToolTimeout);
    looked_ = MonotonicNow();
    const std::vector<FoundDevice> now = text.ok() ? parse_(*text) : std::vector<FoundDevice>();
    for (size_t i = 0; i < found_.size(); ++i) {
      if (health_[i].state() == v1::DeviceHealth::FAILED) continue;
      if (!text.ok()) {
        health_[i] = Degraded(argv_[0] + " does not answer: " + StatusText(text.status()));
      } else {
        health_[i] = HealthIn(now, found_[i].device);
      }
    }
    return health_;
  }

 private:
  // A device that is lost moves the numbers of those behind it: the address tells which is which.
  v1::DeviceHealth HealthIn(const std::vector<FoundDevice>& now, const v1::Device& device) const {
    auto same = std::find_if(now.begin(), now.end(), [&](const FoundDevice& other) {
      return device.pci_address().empty() ? other.device.index() == device.index()
                                          : other.device.pci_address() == device.pci_address();
    });
    return same == now.end() ? Failed(argv_[0] + " does not list it any more") : same->device.health();
  }

  const std::vector<std::string> argv_;
  const Parse parse_;
  std::vector<FoundDevice> found_;
  std::vector<v1::DeviceHealth> health_;
  Monotonic looked_;
};

absl::StatusOr<std::unique_ptr<DeviceSource>> ByTool(std::vector<std::string> argv, Parse parse,
                                                     const DevicePlaces& places) {
  auto source = std::make_unique<ToolSource>(std::move(argv), parse);
  TROUPE_RETURN_IF_ERROR(source->Open(places));
  return source;
}

}  // namespace

absl::StatusOr<std::string> RunTool(const std::vector<std::string>& argv, absl::Duration timeout) {
  const Monotonic deadline = MonotonicNow() + timeout;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<ChildProgram> program, ChildProgram::Start({.argv = argv}));
  std::deque<std::string> lines;
  std::string text;
  for (bool more = true; more;) {
    more = program->PumpOutput(lines);
    for (; !lines.empty(); lines.pop_front()) text += lines.front() + "\n";
    if (text.size() > kToolBytesMax) {
      return absl::ResourceExhaustedError(argv[0] + " printed more than " + std::to_string(kToolBytesMax) + " bytes");
    }
    if (more && MonotonicNow() >= deadline) {
      return absl::DeadlineExceededError(argv[0] + " did not end within " + absl::FormatDuration(timeout) +
                                         " and was killed");
    }
    if (more) ChildProgram::WaitAny({program.get()}, deadline - MonotonicNow());
  }
  const std::string ending = program->Ending();
  if (ending.rfind("exit status 0", 0) != 0) return absl::FailedPreconditionError(argv[0] + " ended: " + ending);
  return text;
}

absl::StatusOr<std::unique_ptr<DeviceSource>> FindAscendDevices(const DevicePlaces& places) {
  absl::StatusOr<std::unique_ptr<DeviceSource>> source = ByTool({"npu-smi", "info"}, ParseNpuSmi, places);
  return absl::IsNotFound(source.status()) ? CountDeviceFiles("ascend", places.dev + "/davinci") : std::move(source);
}

absl::StatusOr<std::unique_ptr<DeviceSource>> FindKunlunDevices(const DevicePlaces& places) {
  return ByTool({"xpu-smi", "-m"}, ParseXpuSmi, places);
}

absl::StatusOr<std::unique_ptr<DeviceSource>> FindPpuDevices(const DevicePlaces& places) {
  return ByTool({"ppu-smi", "--query-gpu=index,uuid,name,pci.bus_id,memory.total", "--format=csv,noheader,nounits"},
                ParsePpuSmi, places);
}

}  // namespace troupe::device
