// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstring>

namespace troupe::device {
namespace {

// ---- The part of NVML's C interface that is used: names, numbers and layouts are NVIDIA's ----
constexpr int kSuccess = 0;
constexpr int kGpuIsLost = 15;
constexpr unsigned kLinksMax = 18;  // NVML_NVLINK_MAX_LINKS
constexpr int kLinkUp = 1;          // NVML_FEATURE_ENABLED
constexpr int kSwitch = 2;          // NVML_NVLINK_DEVICE_TYPE_SWITCH
constexpr int kUncorrected = 1;     // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int kVolatile = 0;        // NVML_VOLATILE_ECC
constexpr unsigned long long kDoubleBitEvent = 0x2;
constexpr unsigned long long kXidEvent = 0x8;
constexpr size_t kTextBytes = 96;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
struct EventData {
  NvmlDevice device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

struct ThrottleReason {
  unsigned long long bit;
  const char* what;
};
// nvmlClocksEventReasonSwThermalSlowdown and nvmlClocksThrottleReasonHw...
constexpr ThrottleReason kThrottleReasons[] = {{0x8, "hardware slowdown"},
                                               {0x20, "too hot (software slowdown)"},
                                               {0x40, "too hot (hardware slowdown)"},
                                               {0x80, "power brake"}};

}  // namespace

struct Nvml::Functions {
  int (*init)();
  int (*shutdown)();
  const char* (*error_string)(int);
  int (*device_count)(unsigned*);
  int (*device_by_index)(unsigned, NvmlDevice*);
  int (*uuid)(NvmlDevice, char*, unsigned);
  int (*name)(NvmlDevice, char*, unsigned);
  int (*pci_info)(NvmlDevice, PciInfo*);
  int (*memory_info)(NvmlDevice, Memory*);
  // The rest may be missing.
  int (*link_state)(NvmlDevice, unsigned, int*);
  int (*link_remote_pci)(NvmlDevice, unsigned, PciInfo*);
  int (*link_remote_type)(NvmlDevice, unsigned, int*);
  int (*ecc_errors)(NvmlDevice, int, int, unsigned long long*);
  int (*remapped_rows)(NvmlDevice, unsigned*, unsigned*, unsigned*, unsigned*);
  int (*throttle_reasons)(NvmlDevice, unsigned long long*);
  int (*supported_events)(NvmlDevice, unsigned long long*);
  int (*event_set_create)(void**);
  int (*event_set_free)(void*);
  int (*register_events)(NvmlDevice, unsigned long long, void*);
  int (*event_set_wait)(void*, EventData*, unsigned);
};

namespace {

template <typename F>
bool Find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Nvml::Nvml() : call_(std::make_unique<Functions>()) {}

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Load(const std::string& library) {
  std::unique_ptr<Nvml> nvml(new Nvml);
  nvml->library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nvml->library_ == nullptr) {
    const char* why = ::dlerror();
    return absl::NotFoundError("NVIDIA's management library " + library +
                               " cannot be loaded: " + (why == nullptr ? "no reason is known" : why));
  }
  Functions& call = *nvml->call_;
  void* from = nvml->library_;
  std::string missing;
  auto need = [&](const char* name, auto*& function) {
    if (!Find(from, name, function) && missing.empty()) missing = name;
  };
  need("nvmlInit_v2", call.init);
  need("nvmlShutdown", call.shutdown);
  need("nvmlErrorString", call.error_string);
  need("nvmlDeviceGetCount_v2", call.device_count);
  need("nvmlDeviceGetHandleByIndex_v2", call.device_by_index);
  need("nvmlDeviceGetUUID", call.uuid);
  need("nvmlDeviceGetName", call.name);
  need("nvmlDeviceGetPciInfo_v3", call.pci_info);
  need("nvmlDeviceGetMemoryInfo", call.memory_info);
  if (!missing.empty()) {
    return absl::FailedPreconditionError(library + " has no function " + missing + ": its driver is too old");
  }
  Find(from, "nvmlDeviceGetNvLinkState", call.link_state);
  Find(from, "nvmlDeviceGetNvLinkRemotePciInfo_v2", call.link_remote_pci);
  Find(from, "nvmlDeviceGetNvLinkRemoteDeviceType", call.link_remote_type);
  Find(from, "nvmlDeviceGetTotalEccErrors", call.ecc_errors);
  Find(from, "nvmlDeviceGetRemappedRows", call.remapped_rows);
  if (!Find(from, "nvmlDeviceGetCurrentClocksEventReasons", call.throttle_reasons)) {
    Find(from, "nvmlDeviceGetCurrentClocksThrottleReasons", call.throttle_reasons);
  }
  Find(from, "nvmlDeviceGetSupportedEventTypes", call.supported_events);
  Find(from, "nvmlEventSetCreate", call.event_set_create);
  Find(from, "nvmlEventSetFree", call.event_set_free);
  Find(from, "nvmlDeviceRegisterEvents", call.register_events);
  Find(from, "nvmlEventSetWait_v2", call.event_set_wait);
  if (int error = call.init(); error != kSuccess) {
    return absl::FailedPreconditionError("NVIDIA's driver does not answer: " + std::string(call.error_string(error)));
  }
  nvml->initialised_ = true;
  return nvml;
}

Nvml::~Nvml() {
  if (events_ != nullptr && call_->event_set_free != nullptr) call_->event_set_free(events_);
  if (initialised_) call_->shutdown();
  if (library_ != nullptr) ::dlclose(library_);
}

absl::StatusOr<std::vector<NvmlDevice>> Nvml::Devices() {
  unsigned count = 0;
  if (int error = call_->device_count(&count); error != kSuccess) {
    return absl::FailedPreconditionError("NVIDIA's driver does not tell how many devices there are: " +
                                         std::string(call_->error_string(error)));
  }
  std::vector<NvmlDevice> devices;
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    if (int error = call_->device_by_index(index, &device); error != kSuccess) {
      return absl::FailedPreconditionError("NVIDIA's driver does not give device " + std::to_string(index) + ": " +
                                           call_->error_string(error));
    }
    devices.push_back(device);
  }
  return devices;
}

std::string Nvml::Uuid(NvmlDevice device) const {
  std::array<char, kTextBytes> text{};
  return call_->uuid(device, text.data(), text.size() - 1) == kSuccess ? text.data() : "";
}

std::string Nvml::Name(NvmlDevice device) const {
  std::array<char, kTextBytes> text{};
  return call_->name(device, text.data(), text.size() - 1) == kSuccess ? text.data() : "";
}

std::string Nvml::PciBusId(NvmlDevice device) const {
  PciInfo info{};
  if (call_->pci_info(device, &info) != kSuccess) return "";
  return std::string(info.bus_id, ::strnlen(info.bus_id, sizeof(info.bus_id)));
}

int64_t Nvml::MemoryBytes(NvmlDevice device) const {
  Memory memory{};
  return call_->memory_info(device, &memory) == kSuccess ? static_cast<int64_t>(memory.total) : 0;
}

std::vector<NvmlLink> Nvml::Links(NvmlDevice device) const {
  std::vector<NvmlLink> links;
  if (call_->link_state == nullptr || call_->link_remote_pci == nullptr) return links;
  for (unsigned link = 0; link < kLinksMax; ++link) {
    int up = 0;
    if (call_->link_state(device, link, &up) != kSuccess || up != kLinkUp) continue;
    NvmlLink found;
    int type = 0;
    found.is_switch = call_->link_remote_type != nullptr && call_->link_remote_type(device, link, &type) == kSuccess &&
                      type == kSwitch;
    PciInfo info{};
    if (call_->link_remote_pci(device, link, &info) == kSuccess) {
      found.pci_address.assign(info.bus_id, ::strnlen(info.bus_id, sizeof(info.bus_id)));
    }
    links.push_back(found);
  }
  return links;
}

bool Nvml::IsThere(NvmlDevice device) const {
  Memory memory{};
  return call_->memory_info(device, &memory) != kGpuIsLost;
}

uint64_t Nvml::UncorrectedErrors(NvmlDevice device) const {
  unsigned long long count = 0;
  if (call_->ecc_errors == nullptr || call_->ecc_errors(device, kUncorrected, kVolatile, &count) != kSuccess) return 0;
  return count;
}

Nvml::RowRemapping Nvml::RemappedRows(NvmlDevice device) const {
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (call_->remapped_rows == nullptr ||
      call_->remapped_rows(device, &corrected, &uncorrected, &pending, &failed) != kSuccess) {
    return {};
  }
  return {pending != 0, failed != 0};
}

std::string Nvml::Throttle(NvmlDevice device) const {
  unsigned long long reasons = 0;
  if (call_->throttle_reasons == nullptr || call_->throttle_reasons(device, &reasons) != kSuccess) return "";
  std::string text;
  for (const ThrottleReason& reason : kThrottleReasons) {
    if ((reasons & reason.bit) != 0) text += (text.empty() ? "" : ", ") + std::string(reason.what);
  }
  return text;
}

void Nvml::WatchEvents(const std::vector<NvmlDevice>& devices) {
  const Functions& call = *call_;
  if (call.event_set_create == nullptr || call.register_events == nullptr || call.event_set_wait == nullptr) return;
  if (events_ == nullptr && call.event_set_create(&events_) != kSuccess) return;
  for (NvmlDevice device : devices) {
    unsigned long long supported = kXidEvent | kDoubleBitEvent;
    if (call.supported_events != nullptr) call.supported_events(device, &supported);
    static_cast<void>(call.register_events(device, supported & (kXidEvent | kDoubleBitEvent), events_));
  }
}

std::optional<NvmlEvent> Nvml::NextEvent() {
  if (events_ == nullptr) return std::nullopt;
  EventData data{};
  if (call_->event_set_wait(events_, &data, 0) != kSuccess) return std::nullopt;
  return NvmlEvent{data.device, data.type == kDoubleBitEvent, data.type == kXidEvent ? data.data : 0};
}

}  // namespace troupe::device
