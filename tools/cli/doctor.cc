// SPDX-License-Identifier: Apache-2.0
// troupe doctor: what this machine has and lacks, each with what to do.
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/device/node_devices.h"
#include "runtime/env/file.h"
#include "runtime/object/memory_file.h"
#include "runtime/rpc/server.h"
#include "tools/cli/commands.h"
#include "tools/cli/head_client.h"
#include "tools/cli/text_table.h"
#include "tools/cli/version.h"
#include "tools/cli/worker_program.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe::cli {
namespace {

enum class Grade { kGood, kWarning, kBad };

struct Finding {
  Grade grade;
  std::string what;
  std::string advice;
};

double MemoryAvailable() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  double kib = 0;
  for (std::string rest; file >> key >> kib; std::getline(file, rest)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

Finding CheckVersions() {
  utsname system{};
  uname(&system);
  return {Grade::kGood, "troupe " + std::string(kVersion) + " on " + system.sysname + " " + system.release, ""};
}

Finding CheckClock() {
  timex clock{};
  if (adjtimex(&clock) >= 0 && (clock.status & STA_UNSYNC) == 0) return {Grade::kGood, "the clock is synchronized", ""};
  return {Grade::kWarning, "the clock is not synchronized",
          "with several machines run chrony or systemd-timesyncd: certificates and merged logs need it"};
}

// Reward functions in Python.
Finding CheckPython() {
  std::string path = EnvironmentVariable("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    std::string program = path.substr(begin, end - begin) + "/python3";
    if (FileExists(program)) return {Grade::kGood, program + " is there", ""};
    begin = end + 1;
  }
  return {Grade::kWarning, "no python3",
          "reward functions in Python (roles.reward.python) need it: apt install python3"};
}

Finding CheckProcessors() {
  unsigned cores = std::thread::hardware_concurrency();
  std::ifstream file("/proc/cpuinfo");
  bool avx2 = false;
  for (std::string line; std::getline(file, line) && !avx2;) {
    avx2 = line.rfind("flags", 0) == 0 && line.find(" avx2") != std::string::npos;
  }
  std::string what = std::to_string(cores) + " processors" + (avx2 ? " with AVX2" : "");
  if (!avx2) return {Grade::kWarning, what + " without AVX2", "generation will be slow: use a machine made after 2015"};
  return {Grade::kGood, what, ""};
}

Finding CheckMemory() {
  double bytes = MemoryAvailable();
  std::string what = ShortBytes(bytes) + " of memory available";
  if (bytes < 6.0 * (1 << 30)) return {Grade::kWarning, what, "examples/addition needs about 6 GiB: close something"};
  return {Grade::kGood, what, ""};
}

Finding CheckDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  std::string what = std::to_string(limit.rlim_cur) + " open files allowed";
  if (limit.rlim_cur < 4096) return {Grade::kWarning, what, "raise it: ulimit -n 65536"};
  return {Grade::kGood, what, ""};
}

Finding CheckDisk() {
  absl::StatusOr<int64_t> free = FreeBytes(".");
  if (!free.ok()) return {Grade::kBad, MessageOf(free.status()), "run where you may write"};
  std::string what = ShortBytes(static_cast<double>(*free)) + " free where you stand";
  if (*free < (8LL << 30)) return {Grade::kWarning, what, "a checkpoint of the example takes 1.6 GB, three are kept"};
  return {Grade::kGood, what, ""};
}

Finding CheckSharedMemory() {
  absl::StatusOr<MemoryFileWriter> file = MemoryFileWriter::Create("doctor", 1 << 20);
  if (!file.ok()) return {Grade::kBad, "memory files: " + MessageOf(file.status()), "allow memfd_create (seccomp?)"};
  return {Grade::kGood, "memory files work", ""};
}

Finding CheckPorts() {
  RpcServerOptions options;
  options.security.token = Token::Generate();
  v1::Head::Service service;
  auto server = RpcServer::Start(options, {&service});
  if (!server.ok()) return {Grade::kBad, "loopback: " + MessageOf(server.status()), "allow ports on 127.0.0.1"};
  return {Grade::kGood, "loopback ports work", ""};
}

// As `troupe node` would offer them.
Finding CheckDevices() {
  device::DevicePlaces places;
  for (const device::DeviceKind& kind : device::DeviceKinds()) {
    for (const device::VisibleVariable& variable : kind.variables) {
      if (::getenv(variable.name.c_str()) != nullptr) {
        places.environment[variable.name] = EnvironmentVariable(variable.name);
      }
    }
  }
  const absl::StatusOr<device::NodeDevices> devices = device::NodeDevices::Find("auto", places);
  if (!devices.ok()) return {Grade::kBad, MessageOf(devices.status()), "look at the driver"};
  std::string notes;
  for (const std::string& note : devices->notes()) notes += (notes.empty() ? "" : "; ") + note;
  if (devices->empty()) {
    return {notes.empty() ? Grade::kGood : Grade::kWarning, "no devices: processors only", notes};
  }
  std::string ill;
  for (const device::OfferedDevice& offered : devices->devices()) {
    const v1::DeviceHealth& health = offered.found.device.health();
    if (health.state() != v1::DeviceHealth::HEALTHY) {
      ill += (ill.empty() ? "" : "; ") + std::to_string(offered.found.device.index()) + ": " + health.reason();
    }
  }
  const v1::Device& first = devices->devices()[0].found.device;
  const std::string what = std::to_string(devices->devices().size()) + " devices (" + devices->kind() + ")" +
                           (first.model().empty() ? "" : ", " + first.model());
  if (!ill.empty()) return {Grade::kWarning, what + "; not all are healthy", ill};
  return {Grade::kGood, what, notes};
}

Finding CheckProgram(const std::string& name, const std::string& needed_for) {
  absl::StatusOr<std::string> program = SiblingProgram(name);
  if (!program.ok()) return {Grade::kBad, MessageOf(program.status()), "needed for " + needed_for};
  return {Grade::kGood, name + " is there", ""};
}

Finding CheckModel() {
  std::string path = ExpandHome("~/.cache/troupe/SmolLM2-135M-Instruct.gguf");
  if (!FileExists(path)) return {Grade::kWarning, "no example model at " + path, "tools/setup fetches it"};
  return {Grade::kGood, "the example model is there", ""};
}

Finding CheckToken() {
  std::string path = DefaultTokenFile();
  if (!FileExists(path)) return {Grade::kGood, "no token yet; 'troupe head' makes one", ""};
  absl::StatusOr<std::string> token = Token::Load(path);
  if (!token.ok()) return {Grade::kBad, MessageOf(token.status()), "chmod 600 " + path + ", or remove it"};
  return {Grade::kGood, "the token is private", ""};
}

}  // namespace

int DoctorCommand(const Options&) {
  Finding findings[] = {CheckVersions(),
                        CheckProcessors(),
                        CheckMemory(),
                        CheckDescriptors(),
                        CheckDisk(),
                        CheckSharedMemory(),
                        CheckPorts(),
                        CheckClock(),
                        CheckDevices(),
                        CheckPython(),
                        CheckToken(),
                        CheckProgram("troupe_worker", "every job"),
                        CheckProgram("troupe_keeper", "every job"),
                        CheckModel()};
  bool bad = false;
  for (const Finding& finding : findings) {
    const char* mark = finding.grade == Grade::kGood      ? "ok     "
                       : finding.grade == Grade::kWarning ? "warning"
                                                          : "BAD    ";
    std::cout << mark << "  " << finding.what << (finding.advice.empty() ? "" : "\n         -> " + finding.advice)
              << "\n";
    bad = bad || finding.grade == Grade::kBad;
  }
  return bad ? kJobFailed : kDone;
}

}  // namespace troupe::cli
