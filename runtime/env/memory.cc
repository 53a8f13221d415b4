// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kProcFileBytesMax = 64 << 10;

// A file with one number; kUnlimited for "max" or when it cannot be read.
int64_t ReadNumber(const std::string& path) {
  std::string text = ReadFile(path, kProcFileBytesMax).value_or("");
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? number : kUnlimited;
}

int64_t Left(const std::string& limit_file, const std::string& usage_file) {
  int64_t limit = ReadNumber(limit_file), usage = ReadNumber(usage_file);
  return limit == kUnlimited || usage == kUnlimited ? kUnlimited : std::max<int64_t>(limit - usage, 0);
}

int64_t LimitOfCgroup() {
  std::string self = ReadFile("/proc/self/cgroup", kProcFileBytesMax).value_or("");
  int64_t limit = kUnlimited;
  // In a container its group may be mounted as the root, while /proc names it as the host does.
  for (const std::string& group : {std::string(), internal::ParseCgroupPath(self, "")}) {
    limit = std::min(limit, ReadNumber("/sys/fs/cgroup" + group + "/memory.max"));
  }
  for (const std::string& group : {std::string(), internal::ParseCgroupPath(self, "memory")}) {
    limit = std::min(limit, ReadNumber("/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes"));
  }
  return limit;
}

int64_t LeftInCgroup() {
  std::string self = ReadFile("/proc/self/cgroup", kProcFileBytesMax).value_or("");
  std::string v2 = "/sys/fs/cgroup" + internal::ParseCgroupPath(self, "");
  std::string v1 = "/sys/fs/cgroup/memory" + internal::ParseCgroupPath(self, "memory");
  return std::min(Left(v2 + "/memory.max", v2 + "/memory.current"),
                  Left(v1 + "/memory.limit_in_bytes", v1 + "/memory.usage_in_bytes"));
}

}  // namespace

int64_t AvailableMemoryBytes() {
  std::string meminfo = ReadFile("/proc/meminfo", kProcFileBytesMax).value_or("");
  int64_t machine = internal::ParseMeminfo(meminfo, "MemAvailable:");
  return std::min(machine < 0 ? kUnlimited : machine, LeftInCgroup());
}

int64_t MachineMemoryBytes() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

int64_t UsableMemoryBytes() { return std::min(MachineMemoryBytes(), LimitOfCgroup()); }

int64_t UsedMemoryBytes() {
  std::string meminfo = ReadFile("/proc/meminfo", kProcFileBytesMax).value_or("");
  int64_t total = internal::ParseMeminfo(meminfo, "MemTotal:"),
          available = internal::ParseMeminfo(meminfo, "MemAvailable:");
  return total < 0 || available < 0 ? 0 : total - available;
}

namespace internal {

int64_t ParseMeminfo(std::string_view meminfo, std::string_view name) {
  size_t at = meminfo.find(name);
  if (at == std::string_view::npos) return -1;
  std::string_view rest = meminfo.substr(at + name.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  int64_t kibibytes = -1;
  std::from_chars(rest.data(), rest.data() + rest.size(), kibibytes);
  return kibibytes < 0 ? -1 : kibibytes * 1024;
}

std::string ParseCgroupPath(std::string_view self_cgroup, std::string_view controller) {
  while (!self_cgroup.empty()) {
    std::string_view line = self_cgroup.substr(0, self_cgroup.find('\n'));
    self_cgroup.remove_prefix(std::min(line.size() + 1, self_cgroup.size()));
    size_t first = line.find(':');
    size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    // "cpu,memory" names several.
    std::string names = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    bool match =
        controller.empty() ? names == ",," : names.find("," + std::string(controller) + ",") != std::string::npos;
    if (match) return std::string(line.substr(second + 1));
  }
  return "";
}

}  // namespace internal
}  // namespace troupe
