// SPDX-License-Identifier: Apache-2.0
// A library with NVML's C interface for tests: its machine stands in the file that FAKE_NVML names, which is read anew
// at every call, so that a test changes it while it is watched:
//   gpu UUID NAME(without spaces) MEMORY_BYTES PCI_BUS_ID
//   link GPU LINK PEER_PCI_BUS_ID       to another GPU            switch GPU LINK
//   ecc GPU COUNT    remap GPU PENDING FAILED    throttle GPU BITS    lost GPU
//   xid GPU NUMBER   an event; each line is told once
//   broken           the driver is not loaded
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kDriverNotLoaded = 9, kTimeout = 10, kGpuIsLost = 15;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

// The words of the lines that begin with `word`.
std::vector<std::vector<std::string>> Lines(const std::string& word) {
  const char* path = std::getenv("FAKE_NVML");
  std::ifstream file(path == nullptr ? "" : path);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    std::istringstream text(line);
    std::vector<std::string> words;
    for (std::string w; text >> w;) words.push_back(w);
    if (!words.empty() && words[0] == word) lines.push_back(words);
  }
  return lines;
}

size_t IndexOf(void* device) { return reinterpret_cast<size_t>(device) - 1; }

std::vector<std::string> Line(const std::string& word, void* device) {
  for (const auto& line : Lines(word)) {
    if (std::stoul(line[1]) == IndexOf(device)) return line;
  }
  return {};
}

std::string LinkLine(const std::string& word, void* device, unsigned link) {
  for (const auto& line : Lines(word)) {
    if (std::stoul(line[1]) == IndexOf(device) && std::stoul(line[2]) == link) return line.size() > 3 ? line[3] : "-";
  }
  return "";
}

size_t events_told = 0;

}  // namespace

extern "C" {
int nvmlInit_v2() { return Lines("broken").empty() ? kSuccess : kDriverNotLoaded; }
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int error) { return error == kDriverNotLoaded ? "Driver Not Loaded" : "Some Error"; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Lines("gpu").size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<size_t>(index) + 1);
  return kSuccess;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::strncpy(text, Lines("gpu")[IndexOf(device)][1].c_str(), size);
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  std::strncpy(text, Lines("gpu")[IndexOf(device)][2].c_str(), size);
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  std::strncpy(info->bus_id, Lines("gpu")[IndexOf(device)][4].c_str(), sizeof(info->bus_id) - 1);
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  if (!Line("lost", device).empty()) return kGpuIsLost;
  total_free_used[0] = std::stoull(Lines("gpu")[IndexOf(device)][3]);
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* up) {
  *up = LinkLine("link", device, link).empty() && LinkLine("switch", device, link).empty() ? 0 : 1;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* info) {
  const std::string peer = LinkLine("link", device, link);
  if (peer.empty()) return kNotSupported;
  std::strncpy(info->bus_id, peer.c_str(), sizeof(info->bus_id) - 1);
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  *type = LinkLine("switch", device, link).empty() ? 0 : 2;
  return kSuccess;
}
int nvmlDeviceGetTotalEccErrors(void* device, int, int, unsigned long long* count) {
  const std::vector<std::string> line = Line("ecc", device);
  *count = line.empty() ? 0 : std::stoull(line[2]);
  return kSuccess;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned*, unsigned*, unsigned* pending, unsigned* failed) {
  const std::vector<std::string> line = Line("remap", device);
  if (line.empty()) return kNotSupported;
  *pending = static_cast<unsigned>(std::stoul(line[2]));
  *failed = static_cast<unsigned>(std::stoul(line[3]));
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  const std::vector<std::string> line = Line("throttle", device);
  *reasons = line.empty() ? 0 : std::stoull(line[2]);
  return kSuccess;
}
int nvmlDeviceGetSupportedEventTypes(void*, unsigned long long* types) {
  *types = ~0ULL;
  return kSuccess;
}
int nvmlEventSetCreate(void** set) {
  *set = &events_told;
  return kSuccess;
}
int nvmlEventSetFree(void*) { return kSuccess; }
int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) { return types == 0xa ? kSuccess : kNotSupported; }
int nvmlEventSetWait_v2(void*, EventData* data, unsigned) {
  const auto lines = Lines("xid");
  if (events_told >= lines.size()) return kTimeout;
  const std::vector<std::string>& line = lines[events_told++];
  data->device = reinterpret_cast<void*>(std::stoul(line[1]) + 1);
  data->type = 0x8;
  data->data = std::stoull(line[2]);
  return kSuccess;
}
}
