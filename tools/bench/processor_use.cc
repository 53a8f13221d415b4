// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/processor_use.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"

namespace troupe::bench {
namespace {

constexpr int64_t kProcFileBytes = 64 << 10;

struct ProcessStat {
  pid_t parent = 0;
  int64_t ticks = 0;  // Of its threads, and of the children that it has waited for.
};

std::map<pid_t, ProcessStat> ReadProcesses() {
  std::map<pid_t, ProcessStat> processes;
  for (const std::string& name : ListDirectory("/proc").value_or(std::vector<std::string>())) {
    if (name[0] < '0' || name[0] > '9') continue;
    std::string text = ReadFile("/proc/" + name + "/stat", kProcFileBytes).value_or("");
    size_t end_of_name = text.rfind(')');
    if (end_of_name == std::string::npos) continue;
    std::istringstream fields(text.substr(end_of_name + 1));
    ProcessStat stat;
    std::string skipped;
    fields >> skipped >> stat.parent;
    for (int i = 5; i <= 13; ++i) fields >> skipped;
    int64_t user = 0, system = 0, user_of_children = 0, system_of_children = 0;
    fields >> user >> system >> user_of_children >> system_of_children;
    stat.ticks = user + system + user_of_children + system_of_children;
    processes[static_cast<pid_t>(std::stol(name))] = stat;
  }
  return processes;
}

std::vector<pid_t> TreeOf(const std::map<pid_t, ProcessStat>& processes, pid_t root) {
  std::vector<pid_t> tree = {root};
  for (size_t i = 0; i < tree.size(); ++i) {
    for (const auto& [pid, stat] : processes) {
      if (stat.parent == tree[i]) tree.push_back(pid);
    }
  }
  return tree;
}

double Seconds(int64_t ticks) { return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)); }

double OwnSeconds() {
  std::map<pid_t, ProcessStat> processes = ReadProcesses();
  int64_t ticks = 0;
  for (pid_t pid : TreeOf(processes, ::getpid())) ticks += processes[pid].ticks;
  return Seconds(ticks);
}

// All but idle and waiting for disks.
double MachineSeconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  int64_t user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  file >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  return Seconds(user + nice + system + irq + softirq + steal);
}

}  // namespace

std::vector<pid_t> ProcessTree(pid_t root) { return TreeOf(ReadProcesses(), root); }

absl::StatusOr<int64_t> MemoryOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/smaps_rollup");
  for (std::string word; file >> word;) {
    int64_t kibibytes = 0;
    if (word == "Pss:" && file >> kibibytes) return kibibytes * 1024;
  }
  return absl::NotFoundError("/proc/" + std::to_string(process) + "/smaps_rollup tells no Pss");
}

absl::Duration ProcessorTimeOf(pid_t process) {
  std::string tasks = "/proc/" + std::to_string(process) + "/task";
  int64_t sum = 0;
  for (const std::string& task : ListDirectory(tasks).value_or(std::vector<std::string>())) {
    int64_t nanoseconds = 0;
    std::ifstream(tasks + "/" + task + "/schedstat") >> nanoseconds;
    sum += nanoseconds;
  }
  return absl::Nanoseconds(sum);
}

int64_t ResidentBytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

ProcessorUse::ProcessorUse() : begin_(MonotonicNow()), machine_(MachineSeconds()), own_(OwnSeconds()) {}

double ProcessorUse::OthersShare() const {
  double all = absl::ToDoubleSeconds(MonotonicNow() - begin_) * std::max(1U, std::thread::hardware_concurrency());
  double others = MachineSeconds() - machine_ - (OwnSeconds() - own_);
  return std::clamp(others / all, 0.0, 1.0);
}

}  // namespace troupe::bench
