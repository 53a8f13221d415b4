// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process_table.h"

#include <dirent.h>
#include <fcntl.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "runtime/env/unique_fd.h"

namespace troupe::keeper {
namespace {

// Enough for any environment that the kernel accepts by default (a quarter of the stack's limit of 8 MiB).
constexpr size_t kProcFileBytesMax = 4 << 20;

std::string ReadProcFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd.valid()) return text;
  char chunk[16384];
  while (text.size() < kProcFileBytesMax) {
    ssize_t n = ::read(fd.get(), chunk, sizeof(chunk));
    if (n <= 0) break;
    text.append(chunk, n);
  }
  return text;
}

// The number after `key` in the lines of `text`; `missing` when the key is not there.
int64_t NumberAfter(const std::string& text, std::string_view key, int64_t missing) {
  size_t at = text.find(key);
  if (at == std::string::npos) return missing;
  at = text.find_first_of("0123456789", at + key.size());
  return at == std::string::npos ? missing : std::strtoll(text.c_str() + at, nullptr, 10);
}

// "pid (name) state ppid pgrp session ...": the name may hold anything, so the fields start after the last ')'.
bool ParseStat(const std::string& text, ProcessEntry& entry) {
  size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return false;
  char state = 0;
  int parent = 0, group = 0, session = 0;
  if (std::sscanf(text.c_str() + end_of_name + 1, " %c %d %d %d", &state, &parent, &group, &session) != 4) return false;
  entry.parent = parent;
  entry.session = session;
  entry.zombie = state == 'Z' || state == 'X';
  return true;
}

}  // namespace

std::vector<ProcessEntry> ReadProcessTable() {
  std::vector<ProcessEntry> table;
  std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (proc == nullptr) return table;
  while (const dirent* item = ::readdir(proc.get())) {
    ProcessEntry entry;
    std::string_view name = item->d_name;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), entry.pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (ParseStat(ReadProcFile("/proc/" + std::string(name) + "/stat"), entry)) table.push_back(entry);
  }
  return table;
}

std::vector<pid_t> DescendantsOf(const std::vector<ProcessEntry>& table, pid_t root) {
  std::unordered_multimap<pid_t, pid_t> children;
  for (const ProcessEntry& entry : table) children.emplace(entry.parent, entry.pid);
  std::vector<pid_t> found = {root};
  for (size_t i = 0; i < found.size() && found.size() <= table.size(); ++i) {
    auto [begin, end] = children.equal_range(found[i]);
    for (auto it = begin; it != end; ++it) found.push_back(it->second);
  }
  found.erase(found.begin());
  return found;
}

bool HasEnvironmentEntry(pid_t pid, std::string_view entry) {
  std::string text = ReadProcFile("/proc/" + std::to_string(pid) + "/environ");
  for (size_t at = 0; at < text.size();) {
    std::string_view item(text.c_str() + at);
    if (item == entry) return true;
    at += item.size() + 1;
  }
  return false;
}

int64_t KernelOomKills() { return NumberAfter(ReadProcFile("/proc/vmstat"), "\noom_kill ", -1); }

}  // namespace troupe::keeper
