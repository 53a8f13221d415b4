// SPDX-License-Identifier: Apache-2.0
// troupe run, troupe resume: a private head and node in this process, one job, nothing left behind.
#include <filesystem>
#include <iostream>

#include "runtime/agent/node_agent.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/random.h"
#include "runtime/job/job_config.h"
#include "scheduler/server/head_server.h"
#include "tools/cli/commands.h"
#include "tools/cli/follow.h"
#include "tools/cli/head_client.h"
#include "tools/cli/private_folder.h"
#include "tools/cli/run_folder.h"
#include "tools/cli/version.h"

namespace troupe::cli {
namespace {

constexpr absl::Duration kRegisterTimeout = absl::Seconds(20);
// What is still alive when the job has ended (nothing, unless something went wrong) gets that long.
constexpr absl::Duration kShutdownGrace = absl::Seconds(5);

// The head, the node and their folder; gone with this object.
class PrivateCluster {
 public:
  static absl::StatusOr<std::unique_ptr<PrivateCluster>> Start(SignalWaiter& signals) {
    auto cluster = std::unique_ptr<PrivateCluster>(new PrivateCluster);
    TROUPE_ASSIGN_OR_RETURN(cluster->folder_, PrivateFolder::Make());
    RpcSecurity security;
    security.token = Token::Generate();
    HeadOptions head;
    head.data_dir = cluster->folder_->path() + "/head";
    head.security = security;
    head.on_fatal = [cluster = cluster.get(), &signals](const absl::Status& status) {
      MutexLock lock(cluster->mutex_);
      cluster->fatal_ = status;
      signals.Wake();
    };
    TROUPE_ASSIGN_OR_RETURN(cluster->head_, HeadServer::Start(std::move(head)));
    std::string target = "127.0.0.1:" + std::to_string(cluster->head_->port());
    AgentOptions agent;
    agent.head_target = target;
    agent.security = security;
    agent.runtime_dir = cluster->folder_->path() + "/node";
    agent.version = kVersion;
    agent.agent_loss_grace = absl::ZeroDuration();  // when this process ends, everything ends
    agent.remove_runtime_dir = true;
    TROUPE_ASSIGN_OR_RETURN(cluster->agent_, NodeAgent::Start(std::move(agent)));
    TROUPE_RETURN_IF_ERROR(cluster->agent_->WaitRegistered(kRegisterTimeout));
    cluster->client_ = std::make_unique<HeadClient>(MakeChannel(target, security), target);
    return cluster;
  }

  ~PrivateCluster() {
    if (agent_ != nullptr) {
      absl::Status status = agent_->Shutdown(kShutdownGrace);
      if (!status.ok()) std::cerr << "troupe: " << MessageOf(status) << "\n";
    }
    agent_.reset();
    if (!fatal().ok()) {
      static_cast<void>(head_.release());  // its end would wait for a disk that may not answer
    } else if (head_ != nullptr) {
      head_->Shutdown();
    }
  }

  const HeadClient& client() const { return *client_; }
  // Not OK when the head can decide nothing any more.
  absl::Status fatal() {
    MutexLock lock(mutex_);
    return fatal_;
  }

 private:
  PrivateCluster() = default;
  Mutex mutex_;
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PrivateFolder> folder_;  // removed last
  std::unique_ptr<HeadServer> head_;
  std::unique_ptr<NodeAgent> agent_;
  std::unique_ptr<HeadClient> client_;
};

int Run(JobConfig config, const Options& options, SignalWaiter& signals) {
  absl::StatusOr<RunFolder> folder = PrepareRunFolder(config, std::filesystem::current_path().string(), WallNow());
  if (!folder.ok()) return Report(folder.status());
  if (folder->finished) {
    std::cerr << "the run in " << folder->path << " is finished; nothing to do (trainer.total_steps=N extends it)\n";
    return kDone;
  }
  absl::StatusOr<std::unique_ptr<PrivateCluster>> cluster = PrivateCluster::Start(signals);
  if (!cluster.ok()) return Report(cluster.status());
  v1::SubmitJobRequest request;
  request.set_request_id(RandomHex(16));
  *request.mutable_spec() = MakeJobSpec(config, folder->path);
  const HeadClient& client = (*cluster)->client();
  auto response = client.Call(&v1::Head::Stub::SubmitJob, request);
  if (!response.ok()) return Report(response.status());
  if (!options.quiet) {
    std::cerr << (folder->continues ? "going on with the run in " : "running in ") << folder->path << "\n";
  }
  FollowOptions follow;
  follow.output_dir = folder->path;
  follow.broken = [&] { return (*cluster)->fatal(); };
  follow.quiet = options.quiet;
  follow.json_summary = options.json_summary;
  return Follow(client, response->job_id(), follow, signals);
}

}  // namespace

int RunCommand(const Options& options, SignalWaiter& signals) {
  absl::StatusOr<LoadedJob> job = LoadJobFile(options.target, options.overrides);
  if (!job.ok()) return Report(job.status());
  return Run(std::move(job->config), options, signals);
}

int ResumeCommand(const Options& options, SignalWaiter& signals) {
  std::filesystem::path given = std::filesystem::absolute(options.target).lexically_normal();
  bool is_checkpoint = given.parent_path().filename() == "checkpoints";
  std::filesystem::path folder = is_checkpoint ? given.parent_path().parent_path() : given;
  if (!FileExists((folder / "job.yaml").string())) {
    return Report(absl::NotFoundError("no run in '" + folder.string() + "' (it has no job.yaml)"));
  }
  std::vector<std::string> overrides = {"trainer.output_dir=" + folder.string(),
                                        "trainer.resume=" + (is_checkpoint ? given.string() : std::string("auto"))};
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  absl::StatusOr<LoadedJob> job = LoadJobFile((folder / "job.yaml").string(), overrides);
  if (!job.ok()) return Report(job.status());
  return Run(std::move(job->config), options, signals);
}

}  // namespace troupe::cli
