// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/worker_cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/env/unique_fd.h"

namespace troupe::keeper {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// On false errno tells why.
bool WriteFile(const std::string& path, const std::string& text) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  errno = 0;
  return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool HasWord(const std::string& text, const std::string& word) {
  std::istringstream words(text);
  for (std::string w; words >> w;) {
    if (w == word) return true;
  }
  return false;
}

// The number on the line "key number"; -1 when there is none.
int64_t CounterOf(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  std::string name;
  for (int64_t value; lines >> name >> value;) {
    if (name == key) return value;
  }
  return -1;
}

// The folder of this process's own group in a hierarchy: "" for version 2, "memory" for version 1's memory controller.
std::string OwnGroup(const std::string& controller) {
  std::string mount;
  std::istringstream mounts(ReadFile("/proc/self/mounts"));
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, folder, type, options;
    fields >> device >> folder >> type >> options;
    bool wanted = controller.empty()
                      ? type == "cgroup2"
                      : type == "cgroup" && ("," + options + ",").find("," + controller + ",") != std::string::npos;
    if (wanted) mount = folder;
  }
  if (mount.empty()) return "";
  std::istringstream groups(ReadFile("/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != "," + controller + "," && controllers.find("," + controller + ",") == std::string::npos)
      continue;
    std::string path = line.substr(second + 1);
    // In a container the path may be that of the host.
    std::string folder = path == "/" ? mount : mount + path;
    return Exists(folder) ? folder : mount;
  }
  return mount;
}

std::vector<std::string> SubfoldersOf(const std::string& folder) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  if (dir == nullptr) return names;
  while (const dirent* item = ::readdir(dir.get())) {
    if (item->d_type == DT_DIR && item->d_name[0] != '.') names.push_back(folder + "/" + item->d_name);
  }
  return names;
}

// Kills by signal what is in a group that has no cgroup.kill (version 1, or a kernel before 5.14).
void SignalEach(const std::string& folder) {
  std::istringstream pids(ReadFile(folder + "/cgroup.procs"));
  for (pid_t pid; pids >> pid;) {
    if (pid > 1 && pid != ::getpid()) ::kill(pid, SIGKILL);
  }
}

// Ends what is in the groups below `folder` and removes them; waits a second at most.
void ClearLeftovers(const std::string& folder) {
  for (const std::string& group : SubfoldersOf(folder)) {
    for (int attempt = 0; attempt < 100 && ::rmdir(group.c_str()) != 0 && errno != ENOENT; ++attempt) {
      if (!WriteFile(group + "/cgroup.kill", "1")) SignalEach(group);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

// Of the end, which would leave empty groups behind.
constexpr int kBusyAttempts = 100;
constexpr std::chrono::milliseconds kBusyPause(5);

bool MakeFolder(const std::string& folder) { return ::mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST; }

}  // namespace

absl::StatusOr<std::unique_ptr<CgroupFolder>> CgroupFolder::Open(const std::string& name) {
  auto folder = std::unique_ptr<CgroupFolder>(new CgroupFolder);
  std::string own = OwnGroup("");
  if (own.empty()) return absl::UnavailableError("no cgroup version 2 is mounted");
  std::string tree = own + "/" + name;
  if (!MakeFolder(tree)) return absl::UnavailableError("mkdir " + tree + ": " + std::strerror(errno));
  folder->tree_folder_ = tree;
  ClearLeftovers(tree);
  for (const char* controller : {"memory", "cpu", "cpuset"}) folder->FindController(controller, own, name);
  return folder;
}

void CgroupFolder::FindController(const std::string& controller, const std::string& own, const std::string& name) {
  // Refused where other processes are in this group, too: version 2 has them in leaves only.
  if (HasWord(ReadFile(own + "/cgroup.controllers"), controller)) {
    WriteFile(own + "/cgroup.subtree_control", "+" + controller);
  }
  if (HasWord(ReadFile(tree_folder_ + "/cgroup.controllers"), controller) &&
      WriteFile(tree_folder_ + "/cgroup.subtree_control", "+" + controller)) {
    controllers_[controller] = {tree_folder_, true};
    return;
  }
  const std::string v1 = OwnGroup(controller);
  if (v1.empty()) return;
  controllers_[controller] = {v1 + "/" + name, false};
  if (!Exists(v1 + "/" + name)) return;  // It is made for the first worker that needs it.
  ClearLeftovers(v1 + "/" + name);
  ::rmdir((v1 + "/" + name).c_str());
}

CgroupFolder::~CgroupFolder() {
  for (int attempt = 0; attempt < kBusyAttempts && !busy_->empty(); ++attempt) {
    std::this_thread::sleep_for(kBusyPause);
    RemoveBusy();
  }
  ::rmdir(tree_folder_.c_str());
  for (const auto& [name, controller] : controllers_) ::rmdir(controller.folder.c_str());
}

// A group is busy for moments after its last process was reaped.
void CgroupFolder::RemoveBusy() {
  std::erase_if(*busy_, [](const std::string& group) { return ::rmdir(group.c_str()) == 0 || errno == ENOENT; });
}

const CgroupFolder::Controller* CgroupFolder::Find(const std::string& controller) const {
  auto found = controllers_.find(controller);
  return found == controllers_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::unique_ptr<WorkerCgroup>> CgroupFolder::Create(const CgroupLimits& limits) {
  RemoveBusy();
  auto group = std::make_unique<WorkerCgroup>();
  group->busy_ = busy_;
  std::string name = "/w" + std::to_string(next_++);
  group->tree_folder_ = tree_folder_ + name;
  if (!MakeFolder(group->tree_folder_)) {
    return absl::UnavailableError("mkdir " + group->tree_folder_ + ": " + std::strerror(errno));
  }
  LimitMemory(name, limits.memory_bytes_max, *group);
  LimitCpus(name, limits, *group);
  return group;
}

void CgroupFolder::LimitMemory(const std::string& worker, int64_t bytes_max, WorkerCgroup& group) {
  const Controller* memory = Find("memory");
  const bool is_v2 = memory != nullptr && memory->is_v2;
  if (bytes_max > 0) {
    group.memory_limit_ =
        Set("memory", worker, {{is_v2 ? "/memory.max" : "/memory.limit_in_bytes", std::to_string(bytes_max)}}, group);
    if (!group.memory_limit_.ok()) return;
    if (is_v2) WriteFile(group.tree_folder_ + "/memory.oom.group", "1");
  } else if (!is_v2) {
    return;
  }
  group.memory_folder_ = memory->folder + worker;
  group.memory_is_v2_ = is_v2;
}

void CgroupFolder::LimitCpus(const std::string& worker, const CgroupLimits& limits, WorkerCgroup& group) {
  if (limits.cpu_weight > 0) {
    const Controller* cpu = Find("cpu");
    const bool is_v2 = cpu != nullptr && cpu->is_v2;
    const int64_t v1_shares = int64_t{limits.cpu_weight} * 1024 / 100;
    group.cpu_limit_ = Set("cpu", worker,
                           {is_v2 ? std::pair("/cpu.weight", std::to_string(std::min(limits.cpu_weight, 10'000)))
                                  : std::pair("/cpu.shares", std::to_string(v1_shares))},
                           group);
  }
  if (limits.cpus.empty() || !group.cpu_limit_.ok()) return;
  const Controller* cpuset = Find("cpuset");
  Settings settings = {{"/cpuset.cpus", limits.cpus}};
  if (cpuset != nullptr && !cpuset->is_v2) {
    settings.emplace_back("/cpuset.mems",
                          ReadFile(cpuset->folder.substr(0, cpuset->folder.rfind('/')) + "/cpuset.mems"));
  }
  group.cpu_limit_ = Set("cpuset", worker, settings, group);
}

absl::Status CgroupFolder::Set(const std::string& controller, const std::string& worker, const Settings& settings,
                               WorkerCgroup& group) {
  const Controller* found = Find(controller);
  if (found == nullptr) {
    return absl::UnavailableError("the control groups here have no " + controller + " controller");
  }
  if (!MakeFolder(found->folder)) return absl::UnavailableError("mkdir " + found->folder + ": " + std::strerror(errno));
  // A set of processors begins empty, and nothing can be in an empty one.
  if (controller == "cpuset" && !found->is_v2) {
    const std::string above = found->folder.substr(0, found->folder.rfind('/'));
    for (const char* file : {"/cpuset.cpus", "/cpuset.mems"}) WriteFile(found->folder + file, ReadFile(above + file));
  }
  const std::string folder = found->folder + worker;
  if (!MakeFolder(folder)) return absl::UnavailableError("mkdir " + folder + ": " + std::strerror(errno));
  for (const auto& [file, content] : settings) {
    if (WriteFile(folder + file, content)) continue;
    absl::Status error = absl::UnavailableError("write " + folder + file + ": " + std::strerror(errno));
    if (!found->is_v2) ::rmdir(folder.c_str());
    return error;
  }
  if (!found->is_v2) {
    group.procs_files_.push_back(folder + "/cgroup.procs");
    group.v1_folders_.push_back(folder);
  }
  return absl::OkStatus();
}

void WorkerCgroup::Kill() {
  if (!WriteFile(tree_folder_ + "/cgroup.kill", "1")) SignalEach(tree_folder_);
}

bool WorkerCgroup::Empty() const { return CounterOf(ReadFile(tree_folder_ + "/cgroup.events"), "populated") <= 0; }

int64_t WorkerCgroup::OomKills() const {
  if (memory_folder_.empty()) return -1;
  return CounterOf(ReadFile(memory_folder_ + (memory_is_v2_ ? "/memory.events" : "/memory.oom_control")), "oom_kill");
}

void WorkerCgroup::Remove() {
  v1_folders_.push_back(tree_folder_);
  for (const std::string& folder : v1_folders_) {
    if (::rmdir(folder.c_str()) != 0 && errno == EBUSY) busy_->push_back(folder);
  }
}

}  // namespace troupe::keeper
