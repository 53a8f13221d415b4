// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/rocm_source.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "absl/strings/numbers.h"
#include "runtime/device/islands.h"
#include "runtime/device/pci.h"
#include "runtime/env/file.h"

namespace troupe::device {
namespace {

constexpr int64_t kFileBytesMax = 64 << 10;
constexpr uint64_t kXgmiLink = 11;  // CRAT_IOLINK_TYPE_XGMI
constexpr int64_t kHeapPublic = 1, kHeapPrivate = 2;
// So many corrected errors are more than a healthy memory has.
constexpr int64_t kManyCorrectedErrors = 1000;
// The blocks of a GPU that count errors, by the names of their files in ras/.
constexpr const char* kRasBlocks[] = {"umc",       "sdma", "gfx", "mmhub", "athub", "pcie_bif", "hdp",
                                      "xgmi_wafl", "df",   "smn", "sem",   "mp0",   "mp1",      "fuse"};

std::string Trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string TextOf(const std::string& path) { return Trimmed(ReadFile(path, kFileBytesMax).value_or("")); }

// Lines of "name number".
std::map<std::string, uint64_t> PropertiesOf(const std::string& path) {
  std::map<std::string, uint64_t> properties;
  std::istringstream lines(ReadFile(path, kFileBytesMax).value_or(""));
  std::string name;
  for (std::string value; lines >> name >> value;) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(value, &number)) properties[name] = number;
  }
  return properties;
}

// Folders named by numbers, in the order of these.
std::vector<int> NumbersIn(const std::string& folder) {
  std::vector<int> numbers;
  for (const std::string& name : ListDirectory(folder).value_or(std::vector<std::string>())) {
    int number = 0;
    if (absl::SimpleAtoi(name, &number) && number >= 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

struct Gpu {
  int node = 0;        // Of the topology.
  std::string folder;  // Of its files: .../renderD128/device
  FoundDevice found;
  std::vector<int> linked_nodes;
};

struct RasCounts {
  int64_t uncorrected = 0;
  int64_t corrected = 0;
};

// Files of "ue: 0\nce: 3\n".
RasCounts RasCountsOf(const std::string& folder) {
  RasCounts counts;
  for (const char* block : kRasBlocks) {
    std::istringstream text(ReadFile(folder + "/ras/" + block + "_err_count", kFileBytesMax).value_or(""));
    std::string name;
    for (int64_t count = 0; text >> name >> count;) {
      if (name == "ue:") counts.uncorrected += count;
      if (name == "ce:") counts.corrected += count;
    }
  }
  return counts;
}

v1::DeviceHealth HealthOf(const Gpu& gpu) {
  if (!FileExists(gpu.folder)) return Failed("the driver has lost the GPU: its files are gone");
  const RasCounts counts = RasCountsOf(gpu.folder);
  if (counts.uncorrected > 0) return Failed(std::to_string(counts.uncorrected) + " uncorrected errors (RAS)");
  if (counts.corrected >= kManyCorrectedErrors) {
    return Degraded(std::to_string(counts.corrected) + " corrected errors (RAS)");
  }
  return Healthy();
}

int64_t MemoryOf(const std::string& topology, const std::string& folder) {
  int64_t bytes = 0;
  if (absl::SimpleAtoi(TextOf(folder + "/mem_info_vram_total"), &bytes) && bytes > 0) return bytes;
  bytes = 0;
  for (int bank : NumbersIn(topology + "/mem_banks")) {
    auto properties = PropertiesOf(topology + "/mem_banks/" + std::to_string(bank) + "/properties");
    const auto heap = static_cast<int64_t>(properties["heap_type"]);
    if (heap == kHeapPublic || heap == kHeapPrivate) bytes += static_cast<int64_t>(properties["size_in_bytes"]);
  }
  return bytes;
}

std::string Hex(const char* format, uint64_t number) {
  char text[64];
  std::snprintf(text, sizeof(text), format, static_cast<unsigned long long>(number));
  return text;
}

class RocmSource : public DeviceSource {
 public:
  explicit RocmSource(const DevicePlaces& places) {
    const std::string nodes = places.sys + "/class/kfd/kfd/topology/nodes";
    for (int node : NumbersIn(nodes)) ReadNode(places, nodes + "/" + std::to_string(node), node);
    std::vector<std::string> names;
    std::vector<FastLink> links;
    for (Gpu& gpu : gpus_) {
      for (int peer : gpu.linked_nodes) links.push_back({gpu.found.device.index(), std::to_string(peer)});
      names.push_back(std::to_string(gpu.node));
    }
    const std::vector<int> islands = Islands(names, links);
    for (Gpu& gpu : gpus_) {
      gpu.found.device.set_island(islands[static_cast<size_t>(gpu.found.device.index())]);
      *gpu.found.device.mutable_health() = HealthOf(gpu);
      found_.push_back(gpu.found);
    }
    lasting_.resize(gpus_.size(), Healthy());
  }

  const std::vector<FoundDevice>& found() const override { return found_; }

  std::vector<v1::DeviceHealth> Health() override {
    std::vector<v1::DeviceHealth> health;
    for (size_t i = 0; i < gpus_.size(); ++i) {
      health.push_back(Worse(lasting_[i], HealthOf(gpus_[i])));
      if (health[i].state() == v1::DeviceHealth::FAILED) lasting_[i] = health[i];
    }
    return health;
  }

 private:
  void ReadNode(const DevicePlaces& places, const std::string& topology, int node) {
    uint64_t gpu_id = 0;
    if (!absl::SimpleAtoi(TextOf(topology + "/gpu_id"), &gpu_id) || gpu_id == 0) return;  // A processor.
    auto properties = PropertiesOf(topology + "/properties");
    // One that a control group hides has no properties.
    if (properties.empty() || properties["simd_count"] == 0 || gpus_.size() >= static_cast<size_t>(kDevicesMax)) return;
    const int index = static_cast<int>(gpus_.size());
    Gpu& gpu = gpus_.emplace_back();
    gpu.node = node;
    gpu.found = PlainDevice("rocm", index);
    gpu.folder = places.sys + "/class/drm/renderD" + std::to_string(properties["drm_render_minor"]) + "/device";
    v1::Device& device = gpu.found.device;
    // As ROCR names it: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
    if (properties["unique_id"] != 0) device.set_id(Hex("GPU-%016llx", properties["unique_id"]));
    const std::string product = TextOf(gpu.folder + "/product_name");
    device.set_model(product.empty() ? Hex("AMD GPU 0x%04llx", properties["device_id"]) : product);
    device.set_memory_bytes(MemoryOf(topology, gpu.folder));
    const uint64_t location = properties["location_id"];
    device.set_pci_address(PciAddress(Hex("%llx:", properties["domain"]) + Hex("%llx:", (location >> 8) & 0xff) +
                                      Hex("%llx.", (location >> 3) & 0x1f) + Hex("%llx", location & 7)));
    device.set_numa_node(NumaNodeOfPci(places.sys, device.pci_address()));
    if (!device.id().empty()) gpu.found.visible_name = device.id();
    for (const char* links : {"/io_links", "/p2p_links"}) {
      for (int link : NumbersIn(topology + links)) {
        auto of_link = PropertiesOf(topology + links + "/" + std::to_string(link) + "/properties");
        if (of_link["type"] == kXgmiLink) gpu.linked_nodes.push_back(static_cast<int>(of_link["node_to"]));
      }
    }
  }

  std::vector<Gpu> gpus_;
  std::vector<FoundDevice> found_;
  std::vector<v1::DeviceHealth> lasting_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceSource>> FindRocmDevices(const DevicePlaces& places) {
  auto source = std::make_unique<RocmSource>(places);
  if (source->found().empty()) return absl::NotFoundError("no AMD GPU in " + places.sys + "/class/kfd");
  return source;
}

}  // namespace troupe::device
