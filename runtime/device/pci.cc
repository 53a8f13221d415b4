// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/pci.h"

#include <charconv>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "runtime/env/cpu_list.h"
#include "runtime/env/file.h"

namespace troupe::device {
namespace {

constexpr int64_t kSysfsBytesMax = 64 << 10;

// The hexadecimal number before `end`, which is taken too; nothing else may stand there.
bool TakeHex(std::string_view& text, char end, unsigned max, unsigned& value) {
  auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  const size_t used = static_cast<size_t>(at - text.data());
  if (error != std::errc() || used == 0 || value > max) return false;
  if (end == '\0') return used == text.size();
  if (used >= text.size() || text[used] != end) return false;
  text.remove_prefix(used + 1);
  return true;
}

}  // namespace

std::string PciAddress(std::string_view text) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  std::string_view rest = text;
  const bool with_domain = text.find(':') != text.rfind(':');
  if (with_domain && !TakeHex(rest, ':', 0xffffffff, domain)) return "";
  if (!TakeHex(rest, ':', 0xff, bus) || !TakeHex(rest, '.', 0x1f, slot) || !TakeHex(rest, '\0', 7, function)) return "";
  char address[32];
  std::snprintf(address, sizeof(address), "%04x:%02x:%02x.%x", domain, bus, slot, function);
  return address;
}

int NumaNodeOfPci(const std::string& sys, const std::string& address) {
  int node = -1;
  if (address.empty()) return node;
  absl::StatusOr<std::string> text = ReadFile(sys + "/bus/pci/devices/" + address + "/numa_node", kSysfsBytesMax);
  if (!text.ok() || !absl::SimpleAtoi(*text, &node) || node < 0) return -1;
  return node;
}

std::vector<int> CpusOfNumaNode(const std::string& sys, int node) {
  if (node < 0) return {};
  return ParseCpuList(
      ReadFile(sys + "/devices/system/node/node" + std::to_string(node) + "/cpulist", kSysfsBytesMax).value_or(""));
}

}  // namespace troupe::device
