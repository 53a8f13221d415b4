// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_source.h"

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/device/device_files.h"
#include "runtime/device/islands.h"
#include "runtime/device/nvml.h"
#include "runtime/device/pci.h"
#include "runtime/device/xid.h"

namespace troupe::device {
namespace {

// Clocks are lowered for moments all the time; what lasts for so many looks is a state.
constexpr int kThrottledLooks = 5;
constexpr int kEventsPerLook = 64;  // A device that floods; the rest is read the next time.

class NvmlSource : public DeviceSource {
 public:
  explicit NvmlSource(std::unique_ptr<Nvml> nvml) : nvml_(std::move(nvml)) {}

  absl::Status Open(const DevicePlaces& places) {
    TROUPE_ASSIGN_OR_RETURN(handles_, nvml_->Devices());
    if (handles_.empty()) return absl::NotFoundError("NVIDIA's driver knows no device");
    std::vector<std::string> addresses;
    std::vector<FastLink> links;
    for (size_t i = 0; i < handles_.size(); ++i) {
      addresses.push_back(PciAddress(nvml_->PciBusId(handles_[i])));
      for (const NvmlLink& link : nvml_->Links(handles_[i])) {
        // Every switch of a node joins all its devices; older libraries tell no address of them.
        std::string peer = link.is_switch ? "switch" : PciAddress(link.pci_address);
        if (!peer.empty()) links.push_back({static_cast<int>(i), std::move(peer)});
      }
    }
    const std::vector<int> islands = Islands(addresses, links);
    for (size_t i = 0; i < handles_.size(); ++i) {
      FoundDevice& found = found_.emplace_back(PlainDevice("cuda", static_cast<int>(i)));
      v1::Device& device = found.device;
      device.set_id(nvml_->Uuid(handles_[i]));
      device.set_model(nvml_->Name(handles_[i]));
      device.set_memory_bytes(nvml_->MemoryBytes(handles_[i]));
      device.set_pci_address(addresses[i]);
      device.set_numa_node(NumaNodeOfPci(places.sys, addresses[i]));
      device.set_island(islands[i]);
      // CUDA numbers devices by speed unless CUDA_DEVICE_ORDER says otherwise; a UUID means the same to both.
      if (!device.id().empty()) found.visible_name = device.id();
    }
    states_.resize(handles_.size());
    for (size_t i = 0; i < handles_.size(); ++i)
      states_[i].uncorrected_at_start = nvml_->UncorrectedErrors(handles_[i]);
    nvml_->WatchEvents(handles_);
    const std::vector<v1::DeviceHealth> health = Health();
    for (size_t i = 0; i < handles_.size(); ++i) *found_[i].device.mutable_health() = health[i];
    return absl::OkStatus();
  }

  const std::vector<FoundDevice>& found() const override { return found_; }

  std::vector<v1::DeviceHealth> Health() override {
    ReadEvents();
    std::vector<v1::DeviceHealth> health;
    for (size_t i = 0; i < handles_.size(); ++i) health.push_back(Look(handles_[i], states_[i]));
    return health;
  }

 private:
  struct State {
    v1::DeviceHealth lasting = Healthy();  // What only a reset mends.
    uint64_t uncorrected_at_start = 0;
    int throttled_looks = 0;
  };

  void ReadEvents() {
    for (int i = 0; i < kEventsPerLook; ++i) {
      const std::optional<NvmlEvent> event = nvml_->NextEvent();
      if (!event.has_value()) return;
      auto handle = std::find(handles_.begin(), handles_.end(), event->device);
      // An event of no known device is of all of them, as of a driver that gave up.
      for (size_t d = 0; d < handles_.size(); ++d) {
        if (handle != handles_.end() && handles_[d] != *handle) continue;
        const v1::DeviceHealth after =
            event->double_bit_error ? Failed("an uncorrectable memory error (double bit)") : HealthAfterXid(event->xid);
        states_[d].lasting = Worse(states_[d].lasting, after);
      }
    }
  }

  v1::DeviceHealth Look(NvmlDevice handle, State& state) {
    v1::DeviceHealth now = state.lasting;
    if (!nvml_->IsThere(handle)) now = Worse(now, Failed("the driver has lost the GPU: it has fallen off the bus"));
    const uint64_t errors = nvml_->UncorrectedErrors(handle);
    if (errors > state.uncorrected_at_start) {
      now = Worse(now, Failed(std::to_string(errors - state.uncorrected_at_start) + " uncorrected memory errors"));
    } else if (errors > 0) {
      now = Worse(now, Degraded(std::to_string(errors) + " uncorrected memory errors since the driver was loaded"));
    }
    const Nvml::RowRemapping rows = nvml_->RemappedRows(handle);
    if (rows.failed) now = Worse(now, Failed("a memory row could not be remapped"));
    if (rows.pending) now = Worse(now, Degraded("a memory row is to be remapped: reset the GPU"));
    if (now.state() == v1::DeviceHealth::FAILED) return state.lasting = now;
    const std::string throttle = nvml_->Throttle(handle);
    state.throttled_looks = throttle.empty() ? 0 : std::min(state.throttled_looks + 1, kThrottledLooks);
    return state.throttled_looks < kThrottledLooks ? now : Worse(now, Degraded("throttled: " + throttle));
  }

  std::unique_ptr<Nvml> nvml_;
  std::vector<NvmlDevice> handles_;
  std::vector<FoundDevice> found_;
  std::vector<State> states_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceSource>> FindCudaDevices(const DevicePlaces& places) {
  absl::StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Load(places.nvml_library);
  if (nvml.ok()) {
    auto source = std::make_unique<NvmlSource>(*std::move(nvml));
    TROUPE_RETURN_IF_ERROR(source->Open(places));
    return source;
  }
  if (!absl::IsNotFound(nvml.status())) return nvml.status();
  absl::StatusOr<std::unique_ptr<DeviceSource>> counted = CountDeviceFiles("cuda", places.dev + "/nvidia");
  return counted.ok() ? std::move(counted) : nvml.status();
}

}  // namespace troupe::device
