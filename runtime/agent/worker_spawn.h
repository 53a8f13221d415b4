// SPDX-License-Identifier: Apache-2.0
// What a worker's process is started with: program, environment, log, limits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/device/device_source.h"
#include "troupe/v1/keeper.pb.h"
#include "troupe/v1/node.pb.h"

namespace troupe::agent {

struct WorkerSpawnOptions {
  std::string worker_binary;  // For roles that name none; absolute.
  std::string runtime_dir;
  std::string agent_socket;  // gRPC path of the agent, without "unix:".
  std::string token;
  std::string device_kind;                         // Of this node; "" it has none.
  std::vector<device::FoundDevice> devices;        // Of this node, by number.
  bool weigh_cpus = false;                         // A worker's weight is what it asks for.
  std::map<std::string, std::string> environment;  // The agent's own; what a worker may inherit is taken from it.
};

// The worker's log file: "<output_dir>/logs/<role>-<replica>.log"; all lives of a replica write to the same one.
std::string WorkerLogPath(const v1::StartWorker& start, const std::string& runtime_dir);

// Pure. The environment is exact: PATH, HOME, USER, LANG, LC_*, TZ, TMPDIR, PYTHON*, VIRTUAL_ENV, LD_LIBRARY_PATH,
// XDG_CACHE_HOME, HF_HOME, NCCL_*, *SAN_OPTIONS and TROUPE_* of the agent (nothing that names a token), then:
//   OMP_NUM_THREADS: the role's CPUs, at least 1; OMP_WAIT_POLICY, GOMP_SPINCOUNT: idle threads sleep
//   the role's own variables (RoleSpec.environment)
//   TROUPE_WORKER ("job/role/replica#incarnation"), TROUPE_AGENT_SOCKET
//   the visible-devices variables of every kind (runtime/device/device_kinds.h): its devices by name; "" none, so that
//   none is seen by accident
//   TROUPE_DEVICE_MEMORY_BYTES, TROUPE_DEVICE_MEMORY_FRACTION: what it may use of the memory of each of its devices, in
//   bytes and as a part of all; nothing enforces it, so its allocator has to. Set where it asked for device memory or
//   for a share of a device, the former as far as the device's memory is known.
// `cpus`: the processors that it has for itself; empty: none.
v1::KeeperSpawn SpawnOf(const v1::StartWorker& start, const WorkerSpawnOptions& options,
                        const std::vector<int>& cpus = {});

// The environment of this process.
std::map<std::string, std::string> OwnEnvironment();

}  // namespace troupe::agent
