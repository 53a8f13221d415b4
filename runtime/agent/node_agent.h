// SPDX-License-Identifier: Apache-2.0
// NodeAgent: the node's side of a cluster, in the process that starts it (`troupe node`, `troupe run`, Runtime::Local).
// It starts or finds the keeper, registers with the head, starts and stops workers at the head's orders and reports
// what becomes of them. See DESIGN.md.
//
//   auto agent = NodeAgent::Start({.head_target = "127.0.0.1:7400", .security = security, .worker_binary = worker});
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/agent/node_resources.h"
#include "runtime/rpc/security.h"

namespace troupe {

// What keeps a worker to the CPUs that its role asks for.
enum class CpuIsolation {
  kNone,    // Nothing: it may use what is idle. Its threads are as many as its CPUs.
  kWeight,  // When all are busy each worker gets CPUs as it asked for (control groups; else nothing).
  kSet,     // A worker that asks for whole CPUs has them for itself, near its devices (control groups; else affinity).
};

struct AgentOptions {
  std::string head_target;  // "host:port" or "unix:/path"
  RpcSecurity security;
  std::string runtime_dir;  // "": ${XDG_RUNTIME_DIR:-/tmp}/troupe-<uid>/node
  std::string node_id;      // "": kept in the runtime folder; made from the host's name at first.
  agent::NodeResourceOptions resources;
  std::map<std::string, std::string> labels;
  std::string version;         // Of the program, for people.
  std::string keeper_program;  // "": troupe_keeper beside this program.
  std::string worker_binary;   // For roles that name none. "": troupe_worker beside this program.
  // The name or address under which other machines reach this node's workers and objects. "": the address from which
  // this machine reaches the head, so loopback where the head is on loopback; nowhere where it is a Unix socket.
  std::string host;
  // How long workers go on without a head, until a head has said how long.
  absl::Duration head_loss_grace = absl::Hours(24);
  // How long workers go on without an agent. 0: they end with this process.
  absl::Duration agent_loss_grace = absl::Minutes(10);
  bool use_cgroups = true;
  // Sets and weights cost where roles take turns or wait for each other, and on few cores; so none is the default.
  CpuIsolation cpu_isolation = CpuIsolation::kNone;
  int64_t worker_object_bytes_max = 0;  // Of the objects of one worker in this node's memory; 0: of all only.
  // Shutdown removes the runtime folder.
  bool remove_runtime_dir = false;
  // One line about what happens; called from one thread.
  std::function<void(const std::string&)> log;
};

// Thread-safe.
class NodeAgent {
 public:
  // Returns when the keeper is there and workers can reach the agent; the head may come later.
  // ALREADY_EXISTS: an agent lives in the runtime folder. INVALID_ARGUMENT: a path is too long, a device list is wrong.
  // NOT_FOUND: the keeper's program is missing. FAILED_PRECONDITION: the keeper cannot serve; the message says why.
  static absl::StatusOr<std::unique_ptr<NodeAgent>> Start(AgentOptions options);

  // Without Shutdown this is what a crash is: workers go on for agent_loss_grace and are taken over by the next agent.
  virtual ~NodeAgent() = default;

  // OK when the head has welcomed this node. UNAUTHENTICATED: the head does not take its token; it tries on (a head
  // with another one may come). DEADLINE_EXCEEDED with the last reason.
  virtual absl::Status WaitRegistered(absl::Duration timeout) = 0;

  // Ends every worker (gracefully within `grace`, then by force), then the keeper; tells the head. Nothing is left but
  // the runtime folder, or not even that (remove_runtime_dir). DEADLINE_EXCEEDED: a process does not end.
  virtual absl::Status Shutdown(absl::Duration grace) = 0;

  virtual std::string node_id() const = 0;
  virtual std::string runtime_dir() const = 0;
  // Of the broker of memory files.
  virtual std::string object_socket() const = 0;
  // Of the keeper if this agent started it, else 0.
  virtual int64_t keeper_pid() const = 0;
  // Where it gives objects to other nodes; "" nowhere.
  virtual std::string endpoint() const = 0;
};

}  // namespace troupe
