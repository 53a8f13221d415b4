// SPDX-License-Identifier: Apache-2.0
// troupe head, troupe node.
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "absl/strings/numbers.h"
#include "runtime/agent/node_agent.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "scheduler/server/head_server.h"
#include "tools/cli/commands.h"
#include "tools/cli/head_client.h"
#include "tools/cli/version.h"

namespace troupe::cli {
namespace {

constexpr absl::Duration kIdleWait = absl::Seconds(3600);
constexpr absl::Duration kNodeGrace = absl::Seconds(30);
// What a head needs to refuse a token.
constexpr absl::Duration kFirstAnswer = absl::Seconds(3);

absl::Status AddLabels(const std::vector<std::string>& labels, std::map<std::string, std::string>& out) {
  for (const std::string& label : labels) {
    size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError("'" + label + "' is no label: expected key=value");
    }
    out[label.substr(0, equals)] = label.substr(equals + 1);
  }
  return absl::OkStatus();
}

std::string FolderOf(const std::string& typed) { return std::filesystem::absolute(ExpandHome(typed)).string(); }

absl::Status AddResources(const std::vector<std::string>& resources, std::map<std::string, double>& out) {
  for (const std::string& resource : resources) {
    size_t equals = resource.find('=');
    double amount = 0;
    if (equals == std::string::npos || equals == 0 || !absl::SimpleAtod(resource.substr(equals + 1), &amount)) {
      return absl::InvalidArgumentError("'" + resource + "' is no resource: expected name=number, as in licence=2");
    }
    out[resource.substr(0, equals)] = amount;
  }
  return absl::OkStatus();
}

}  // namespace

int HeadCommand(const Options& options, SignalWaiter& signals) {
  absl::StatusOr<RpcSecurity> security = SecurityOf(options.connection, /*make_token=*/true);
  if (!security.ok()) return Report(security.status());
  HeadOptions head_options;
  head_options.data_dir = FolderOf(options.data_dir.empty() ? "~/.local/share/troupe/head" : options.data_dir);
  std::string listen = options.listen.empty() ? "127.0.0.1:7400" : options.listen;
  head_options.addresses = {listen};
  head_options.security = *security;
  head_options.on_fatal = [&](const absl::Status&) { signals.Wake(); };
  absl::StatusOr<std::unique_ptr<HeadServer>> head = HeadServer::Start(std::move(head_options));
  if (!head.ok()) return Report(head.status());
  std::string address = listen.substr(0, listen.rfind(':') + 1) + std::to_string((*head)->port());
  std::cerr << "the head listens on " << address << "\n"
            << "join a machine (copy the token file to it first):\n  troupe node --head " << address
            << (options.connection.token_file.empty() ? "" : " --token-file " + options.connection.token_file) << "\n"
            << std::flush;
  while (signals.Wait(kIdleWait) == 0 && (*head)->status().ok()) {
  }
  if (absl::Status status = (*head)->status(); !status.ok()) {
    Report(status);
    std::_Exit(kJobFailed);  // what is in flight cannot be made durable, and the disk may never answer
  }
  (*head)->Shutdown();
  return kDone;
}

int NodeCommand(const Options& options, SignalWaiter& signals) {
  absl::StatusOr<RpcSecurity> security = SecurityOf(options.connection, /*make_token=*/false);
  if (!security.ok()) return Report(security.status());
  AgentOptions agent_options;
  agent_options.head_target = HeadTarget(options.connection);
  agent_options.security = *security;
  if (!options.data_dir.empty()) agent_options.runtime_dir = FolderOf(options.data_dir);
  agent_options.node_id = options.node_id;
  agent_options.host = options.host;
  agent_options.resources.devices = options.devices;
  agent_options.resources.cpus = options.cpus;
  agent_options.version = kVersion;
  agent_options.log = [](const std::string& line) { std::cerr << line << "\n" << std::flush; };
  agent_options.cpu_isolation = options.cpu_isolation == "set"      ? CpuIsolation::kSet
                                : options.cpu_isolation == "weight" ? CpuIsolation::kWeight
                                                                    : CpuIsolation::kNone;
  agent_options.worker_object_bytes_max = static_cast<int64_t>(options.worker_object_bytes);
  if (absl::Status status = AddLabels(options.labels, agent_options.labels); !status.ok()) return Report(status);
  if (absl::Status status = AddResources(options.resources, agent_options.resources.custom); !status.ok()) {
    return Report(status);
  }
  absl::StatusOr<std::unique_ptr<NodeAgent>> agent = NodeAgent::Start(std::move(agent_options));
  if (!agent.ok()) return Report(agent.status());
  std::cerr << "node " << (*agent)->node_id() << " in " << (*agent)->runtime_dir() << "\n" << std::flush;
  if (absl::Status refused = (*agent)->WaitRegistered(kFirstAnswer); absl::IsUnauthenticated(refused)) {
    static_cast<void>((*agent)->Shutdown(kNodeGrace));
    return Report(
        absl::UnauthenticatedError("the head at " + HeadTarget(options.connection) +
                                   " refused the token; --token-file names the right one: " + MessageOf(refused)));
  }
  while (signals.Wait(kIdleWait) == 0) {
  }
  std::cerr << "ending the workers of this node\n" << std::flush;
  absl::Status status = (*agent)->Shutdown(kNodeGrace);
  return status.ok() ? kDone : Report(status);
}

}  // namespace troupe::cli
