// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/sim_source.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/nearest.h"
#include "runtime/base/shown_text.h"
#include "runtime/device/xid.h"
#include "runtime/env/file.h"

namespace troupe::device {
namespace {

constexpr int64_t kHealthFileBytesMax = 64 << 10;
constexpr double kMemoryBytesMax = 1024.0 * 1024 * 1024 * 1024;  // 1 TiB of one device
constexpr size_t kReasonBytesMax = 200;

absl::Status Wrong(absl::string_view part, const std::string& expected) {
  return absl::InvalidArgumentError("devices 'sim:...': '" + std::string(part) + "': expected " + expected);
}

class SimSource : public DeviceSource {
 public:
  SimSource(const SimDevices& sim, std::string health_file) : health_file_(std::move(health_file)) {
    for (int i = 0; i < sim.count; ++i) {
      FoundDevice& found = found_.emplace_back(PlainDevice("sim", i));
      found.device.set_id("sim-" + std::to_string(i));
      found.device.set_model("simulated");
      found.device.set_memory_bytes(sim.memory_bytes);
      if (sim.per_island > 0) found.device.set_island(i / sim.per_island);
      if (sim.per_numa_node > 0) found.device.set_numa_node(i / sim.per_numa_node);
    }
    const std::vector<v1::DeviceHealth> health = Health();
    for (size_t i = 0; i < found_.size(); ++i) *found_[i].device.mutable_health() = health[i];
  }

  const std::vector<FoundDevice>& found() const override { return found_; }

  std::vector<v1::DeviceHealth> Health() override {
    const std::string text =
        health_file_.empty() ? "" : ReadFile(health_file_, kHealthFileBytesMax).value_or(std::string());
    return ParseSimHealth(text, static_cast<int>(found_.size()));
  }

 private:
  const std::string health_file_;
  std::vector<FoundDevice> found_;
};

}  // namespace

absl::StatusOr<SimDevices> ParseSimDevices(std::string_view text) {
  SimDevices sim;
  const std::string counts = "a number from 1 to " + std::to_string(kDevicesMax);
  std::vector<absl::string_view> parts = absl::StrSplit(absl::string_view(text.data(), text.size()), ',');
  if (!absl::SimpleAtoi(parts[0], &sim.count) || sim.count < 0 || sim.count > kDevicesMax) {
    return Wrong(parts[0], "how many there are, up to " + std::to_string(kDevicesMax) + ", as in sim:8");
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> part = absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    const std::string value(part.second);
    if (part.first == "memory") {
      const std::optional<double> bytes = ParseByteSize(value);
      if (!bytes.has_value() || *bytes < 1 || *bytes > kMemoryBytesMax) {
        return Wrong(parts[i], "bytes of one device up to 1TiB, such as memory=80GiB");
      }
      sim.memory_bytes = static_cast<int64_t>(*bytes);
    } else if (part.first == "island" || part.first == "numa") {
      int number = 0;
      if (!absl::SimpleAtoi(value, &number) || number < 1 || number > kDevicesMax) return Wrong(parts[i], counts);
      (part.first == "island" ? sim.per_island : sim.per_numa_node) = number;
    } else {
      const std::string nearest = NearestOf(std::string(part.first), {"memory", "island", "numa"});
      return Wrong(parts[i],
                   "memory=, island= or numa=" + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
    }
  }
  return sim;
}

std::vector<v1::DeviceHealth> ParseSimHealth(std::string_view text, int count) {
  std::vector<v1::DeviceHealth> health(static_cast<size_t>(count), Healthy());
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    int device = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[0], &device) || device < 0 || device >= count) continue;
    v1::DeviceHealth& now = health[static_cast<size_t>(device)];
    const size_t after = static_cast<size_t>(words[1].data() + words[1].size() - line.data());
    const absl::string_view rest = absl::StripAsciiWhitespace(line.substr(after));
    const std::string reason = ShownText({rest.data(), rest.size()}, kReasonBytesMax);
    uint64_t xid = 0;
    if (words[1] == "xid" && absl::SimpleAtoi(rest, &xid)) now = HealthAfterXid(xid);
    if (words[1] == "healthy") now = Healthy();
    if (words[1] == "degraded") now = Degraded(reason);
    if (words[1] == "failed") now = Failed(reason.empty() ? "said to have failed" : reason);
  }
  return health;
}

std::unique_ptr<DeviceSource> MakeSimDevices(const SimDevices& sim, const std::string& health_file) {
  return std::make_unique<SimSource>(sim, health_file);
}

}  // namespace troupe::device
