// SPDX-License-Identifier: Apache-2.0
// Registers a head and a node agent in the own process as the cluster of Runtime::Local. Linking this library is all.
#include <iostream>
#include <utility>

#include "runtime/agent/node_agent.h"
#include "runtime/base/status.h"
#include "runtime/embed/embedded_cluster.h"
#include "runtime/env/file.h"
#include "runtime/env/process.h"
#include "scheduler/server/head_server.h"

namespace troupe {
namespace {

constexpr absl::Duration kRegisterTimeout = absl::Seconds(20);
// For workers that are still there when the program ends.
constexpr absl::Duration kShutdownGrace = absl::Seconds(5);

// Of the installation that libtroupe.so is a part of (tools/install); else "": beside this program.
std::string InstalledKeeper() {
  std::string library = LibraryFolder();
  std::string keeper = library + "/../bin/troupe_keeper";
  return !library.empty() && FileExists(keeper) ? keeper : "";
}

class HeadAndNode : public EmbeddedCluster {
 public:
  static absl::StatusOr<std::unique_ptr<EmbeddedCluster>> Start(const EmbeddedClusterOptions& options) {
    auto cluster = std::make_unique<HeadAndNode>();
    HeadOptions head;
    head.data_dir = options.folder + "/head";
    cluster->head_target_ = "unix:" + options.folder + "/head.sock";  // All who ask it are on this machine.
    head.addresses = {cluster->head_target_};
    head.security = options.security;
    head.head_loss_grace = absl::ZeroDuration();
    head.on_fatal = [](const absl::Status& status) { std::cerr << "troupe: " << MessageOf(status) << "\n"; };
    TROUPE_ASSIGN_OR_RETURN(cluster->head_, HeadServer::Start(std::move(head)));
    AgentOptions agent;
    agent.head_target = cluster->head_target_;
    agent.host = "127.0.0.1";
    agent.security = options.security;
    agent.keeper_program = options.keeper_program.empty() ? InstalledKeeper() : options.keeper_program;
    agent.runtime_dir = options.folder + "/node";
    agent.agent_loss_grace = absl::ZeroDuration();  // When this process ends, everything ends.
    agent.remove_runtime_dir = true;
    TROUPE_ASSIGN_OR_RETURN(cluster->agent_, NodeAgent::Start(std::move(agent)));
    TROUPE_RETURN_IF_ERROR(cluster->agent_->WaitRegistered(kRegisterTimeout));
    return absl::StatusOr<std::unique_ptr<EmbeddedCluster>>(std::move(cluster));
  }

  ~HeadAndNode() override {
    if (agent_ != nullptr) {
      absl::Status status = agent_->Shutdown(kShutdownGrace);
      if (!status.ok()) std::cerr << "troupe: " << MessageOf(status) << "\n";
    }
    agent_ = nullptr;
    if (head_ != nullptr) head_->Shutdown();
  }

  std::string head_target() const override { return head_target_; }
  std::string node_id() const override { return agent_->node_id(); }
  std::string object_socket() const override { return agent_->object_socket(); }

 private:
  std::string head_target_;
  std::unique_ptr<HeadServer> head_;
  std::unique_ptr<NodeAgent> agent_;
};

const bool kRegistered = RegisterEmbeddedCluster(&HeadAndNode::Start);

}  // namespace
}  // namespace troupe
