// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/smi_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/shown_text.h"
#include "runtime/device/pci.h"

namespace troupe::device {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMemoryMiBMax = int64_t{1} << 26;  // 64 TiB
constexpr size_t kTextBytesMax = 128;                // Of a name or an id.
constexpr size_t kXpuMemoryField = 18;
constexpr size_t kXpuSerialField = 3;

std::string Text(absl::string_view text) {
  return ShownText(std::string_view(text.data(), text.size()), kTextBytesMax);
}

std::vector<absl::string_view> Lines(std::string_view text) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
}

std::vector<absl::string_view> Words(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
}

int64_t BytesOfMiB(absl::string_view text) {
  int64_t mib = 0;
  return absl::SimpleAtoi(text, &mib) && mib > 0 && mib <= kMemoryMiBMax ? mib * kMiB : 0;
}

FoundDevice Device(const char* kind, size_t index) { return PlainDevice(kind, static_cast<int>(index)); }

// OK, Warning, Alarm, Critical or UNKNOWN.
v1::DeviceHealth NpuHealth(absl::string_view word) {
  const std::string text = "npu-smi reports " + Text(word);
  if (word == "OK") return Healthy();
  return word == "Alarm" || word == "Critical" ? Failed(text) : Degraded(text);
}

// The largest "used / total" of a line: the memory of the chip, beside that of its control processors.
int64_t NpuMemory(const std::vector<absl::string_view>& words) {
  int64_t most = 0;
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i - 1] == "/") most = std::max(most, BytesOfMiB(words[i]));
  }
  return most;
}

bool IsNumber(absl::string_view word) {
  int number = 0;
  return absl::SimpleAtoi(word, &number) && number >= 0;
}

}  // namespace

std::vector<FoundDevice> ParseNpuSmi(std::string_view text) {
  std::vector<FoundDevice> devices;
  bool named = false;  // The line before was the first of a chip.
  std::string model;
  v1::DeviceHealth health;
  for (absl::string_view line : Lines(text)) {
    std::vector<absl::string_view> cells = absl::StrSplit(line, '|');
    if (cells.size() < 5) {
      named = false;
      continue;
    }
    const std::vector<absl::string_view> first = Words(cells[1]), second = Words(cells[2]), third = Words(cells[3]);
    if (first.empty() || !IsNumber(first[0])) {
      named = false;
    } else if (!named && first.size() >= 2 && second.size() == 1 && !IsNumber(first[1])) {
      named = true;
      model = Text(absl::StripAsciiWhitespace(cells[1]).substr(first[0].size()));
      health = NpuHealth(second[0]);
    } else if (named && devices.size() < static_cast<size_t>(kDevicesMax)) {
      named = false;
      FoundDevice& found = devices.emplace_back(Device("ascend", devices.size()));
      found.device.set_model("Ascend " + std::string(absl::StripAsciiWhitespace(model)));
      *found.device.mutable_health() = health;
      if (!second.empty()) {
        found.device.set_pci_address(PciAddress(std::string_view(second[0].data(), second[0].size())));
      }
      found.device.set_memory_bytes(NpuMemory(third));
    }
  }
  return devices;
}

std::vector<FoundDevice> ParseXpuSmi(std::string_view text) {
  std::vector<FoundDevice> devices;
  for (absl::string_view line : Lines(text)) {
    const std::vector<absl::string_view> words = Words(line);
    if (words.size() <= kXpuMemoryField || devices.size() >= static_cast<size_t>(kDevicesMax)) continue;
    const std::string address = PciAddress(std::string_view(words[0].data(), words[0].size()));
    if (address.empty() || !IsNumber(words[1])) continue;
    FoundDevice& found = devices.emplace_back(Device("kunlun", devices.size()));
    found.device.set_pci_address(address);
    found.device.set_id(Text(words[kXpuSerialField]));
    found.device.set_memory_bytes(BytesOfMiB(words[kXpuMemoryField]));
    const size_t quote = line.find('"'), end = line.find('"', quote + 1);
    const bool quoted = quote != absl::string_view::npos && end != absl::string_view::npos;
    found.device.set_model(quoted ? Text(line.substr(quote + 1, end - quote - 1)) : "Kunlun XPU");
  }
  return devices;
}

std::vector<FoundDevice> ParsePpuSmi(std::string_view text) {
  std::vector<FoundDevice> devices;
  for (absl::string_view line : Lines(text)) {
    std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
    for (absl::string_view& cell : cells) cell = absl::StripAsciiWhitespace(cell);
    if (cells.size() != 5 || !IsNumber(cells[0]) || devices.size() >= static_cast<size_t>(kDevicesMax)) continue;
    FoundDevice& found = devices.emplace_back(Device("ppu", devices.size()));
    found.device.set_id(Text(cells[1]));
    found.device.set_model(Text(cells[2]));
    found.device.set_pci_address(PciAddress(std::string_view(cells[3].data(), cells[3].size())));
    found.device.set_memory_bytes(BytesOfMiB(cells[4]));
    // The runtime takes NVIDIA's forms: a number or a UUID.
    found.visible_name = std::string(cells[0]);
  }
  return devices;
}

}  // namespace troupe::device
