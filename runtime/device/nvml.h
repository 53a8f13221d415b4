// SPDX-License-Identifier: Apache-2.0
// Nvml: NVIDIA's management library, loaded at run time, as far as devices and their health need it.
// The C interface is NVIDIA's (nvml.h, API version 12 and later); what it needs of it is declared in nvml.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace troupe::device {

using NvmlDevice = void*;

struct NvmlEvent {
  NvmlDevice device = nullptr;
  bool double_bit_error = false;  // Else an Xid.
  uint64_t xid = 0;
};

// What is at the other end of an NVLink.
struct NvmlLink {
  bool is_switch = false;
  std::string pci_address;  // "" not told.
};

// Not thread-safe. Questions that the device or an older library does not know are answered with "none" or 0.
class Nvml {
 public:
  // NOT_FOUND: no such library. FAILED_PRECONDITION: it lacks a function, or the driver is not loaded; the message says
  // which.
  static absl::StatusOr<std::unique_ptr<Nvml>> Load(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // In the order of their PCI addresses.
  absl::StatusOr<std::vector<NvmlDevice>> Devices();
  std::string Uuid(NvmlDevice device) const;
  std::string Name(NvmlDevice device) const;
  std::string PciBusId(NvmlDevice device) const;
  int64_t MemoryBytes(NvmlDevice device) const;
  // Those that are up.
  std::vector<NvmlLink> Links(NvmlDevice device) const;

  // Whether the device answers at all; false once the driver has lost it.
  bool IsThere(NvmlDevice device) const;
  // Uncorrected memory errors since the driver was loaded.
  uint64_t UncorrectedErrors(NvmlDevice device) const;
  struct RowRemapping {
    bool pending = false;
    bool failed = false;
  };
  RowRemapping RemappedRows(NvmlDevice device) const;
  // Why the clocks are lowered: the hardware's reasons, not those of power settings, as a sentence; "" they are not.
  std::string Throttle(NvmlDevice device) const;

  // Asks for the events of these devices; those that cannot tell any are left out.
  void WatchEvents(const std::vector<NvmlDevice>& devices);
  // The next event that has come; none: there is none now.
  std::optional<NvmlEvent> NextEvent();

 private:
  struct Functions;
  Nvml();

  void* library_ = nullptr;
  bool initialised_ = false;
  void* events_ = nullptr;
  std::unique_ptr<Functions> call_;
};

}  // namespace troupe::device
