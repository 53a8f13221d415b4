// SPDX-License-Identifier: Apache-2.0
#include "runtime/embed/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>

#include "runtime/actor/actor_host.h"
#include "runtime/actor/executor.h"
#include "runtime/actor/local_actors.h"
#include "runtime/base/status.h"
#include "runtime/embed/embedded_cluster.h"
#include "runtime/embed/process_actors.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/temporary_folder.h"
#include "runtime/object/object_store.h"
#include "runtime/rpc/server.h"
#include "runtime/transport/transport.h"
#include "runtime/worker/worker_main.h"

namespace troupe {
namespace {

// For the transport's server, when the runtime ends.
constexpr absl::Duration kServerGrace = absl::Seconds(1);

// A process that was started as a worker of a program that embeds actors becomes one here.
void BecomeWorkerIfStartedAsOne() {
  if (EnvironmentVariable("TROUPE_WORKER").empty()) return;
  std::fflush(nullptr);
  ::_exit(RunWorker(0, nullptr));
}

}  // namespace

// Spawns here, or in processes if the options ask for that.
class Runtime::Parts : public ActorSpawner {
 public:
  explicit Parts(const RuntimeOptions& options)
      : name_(options.name),
        keeper_program_(options.keeper_program),
        threads_(options.threads),
        objects_(ObjectStore::Create({.name = options.name, .bytes_max = options.object_bytes_max})) {}

  ~Parts() override {
    if (actors_ != nullptr) actors_->Shutdown("the runtime ends", Monotonic::Infinite());
    executor_ = nullptr;  // Its last turns and timers use what goes below.
    processes_ = nullptr;
    objects_->Shutdown();
    cluster_ = nullptr;
    if (transport_ != nullptr) transport_->Shutdown();
    if (server_ != nullptr) server_->Shutdown(kServerGrace);
  }

  // `serves`: actors of other processes may call those of this one.
  absl::Status Start(RpcSecurity security, bool serves) {
    security_ = std::move(security);
    ActorSetting setting;
    setting.self.path.job = JobId(name_);
    TransportOptions transport_options;
    transport_options.process_name = name_;
    transport_options.security = security_;
    transport_ = Transport::Create(std::move(transport_options), host_);
    router_ = transport_;
    router_->SetObjects(objects_);
    executor_ = std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = threads_, .idle = transport_->idle_work()});
    if (serves) {
      TROUPE_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Make("troupe-runtime"));
      folder_.emplace(std::move(folder));
      setting.endpoint = "unix:" + folder_->path() + "/runtime.sock";
      RpcServerOptions server_options;
      server_options.addresses = {setting.endpoint};
      server_options.security = security_;
      static_cast<void>(transport_->ServeRings(setting.endpoint));  // Without them there is gRPC.
      TROUPE_ASSIGN_OR_RETURN(server_, RpcServer::Start(server_options, {transport_->service()}));
    }
    actors_ = std::make_unique<LocalActors>(
        std::move(setting), host_, router_, *executor_,
        [transport = transport_.get()](const ActorLife& life, const v1::ExitCause& cause) {
          transport->MarkDead(life, cause);
        },
        nullptr, this);
    return absl::OkStatus();
  }

  absl::Status UseHead(const std::string& target) {
    MutexLock lock(mutex_);
    known_ = (processes_ = MakeProcesses(target, "")).get();
    return processes_->CheckHead();
  }

  absl::StatusOr<ActorPlace> Spawn(const std::string& actor_class, std::string arguments, const SpawnOptions& options,
                                   const ActorLife* parent) override {
    if (options.NeedsProcess()) {
      TROUPE_ASSIGN_OR_RETURN(ProcessActors * processes, Processes());
      TROUPE_ASSIGN_OR_RETURN(std::vector<ActorAddress> one,
                              processes->Spawn(actor_class, arguments, options, parent, 1, false));
      return router_->Locate(std::move(one[0]));
    }
    if (ProcessActors* processes = KnownProcesses()) processes->Sweep();  // The name may be free by now.
    return actors_->Spawn(actor_class, std::move(arguments), options, parent);
  }
  absl::StatusOr<std::vector<ActorAddress>> SpawnProcesses(const std::string& actor_class, const std::string& arguments,
                                                           const SpawnOptions& options, size_t size) {
    TROUPE_ASSIGN_OR_RETURN(ProcessActors * processes, Processes());
    return processes->Spawn(actor_class, arguments, options, nullptr, size, true);
  }

  absl::StatusOr<ActorInfo> Find(const std::string& name) const override {
    absl::StatusOr<ActorInfo> here = actors_->Find(name);
    ProcessActors* processes = KnownProcesses();
    return here.ok() || processes == nullptr ? here : processes->Find(name);
  }
  std::vector<ActorInfo> List() const override {
    std::vector<ActorInfo> list = actors_->List();
    ProcessActors* processes = KnownProcesses();
    if (processes == nullptr) return list;
    for (ActorInfo& info : processes->List()) list.push_back(std::move(info));
    return list;
  }
  absl::Status Stop(const ActorLife& life, const std::string& reason, absl::Duration grace) override {
    ProcessActors* processes = KnownProcesses();
    if (processes != nullptr && processes->Owns(life)) return processes->Stop(life, reason, grace);
    return actors_->Stop(life, reason, grace);
  }

  const std::shared_ptr<CallRouter>& router() const { return router_; }

 private:
  // Null: there are none so far.
  ProcessActors* KnownProcesses() const { return known_.load(std::memory_order_acquire); }
  std::unique_ptr<ProcessActors> MakeProcesses(const std::string& head_target, const std::string& node_id) {
    return std::make_unique<ProcessActors>(
        ProcessActorsOptions{head_target, node_id, security_, name_, folder_->path() + "/logs"}, *actors_, *executor_,
        transport_);
  }
  // The first actor with a process of its own starts the cluster.
  absl::StatusOr<ProcessActors*> Processes() {
    MutexLock lock(mutex_);
    if (processes_ != nullptr) return processes_.get();
    if (!RegisteredEmbeddedCluster()) {
      return absl::FailedPreconditionError(
          "an actor with a process of its own needs a head: link //scheduler/server:embedded, or use Runtime::Connect");
    }
    TROUPE_ASSIGN_OR_RETURN(cluster_, RegisteredEmbeddedCluster()({folder_->path(), security_, keeper_program_}));
    objects_->UseBroker(cluster_->object_socket(), {});
    known_ = (processes_ = MakeProcesses(cluster_->head_target(), cluster_->node_id())).get();
    return processes_.get();
  }

  const std::string name_;
  const std::string keeper_program_;
  const int threads_;
  const std::shared_ptr<ObjectStore> objects_;
  RpcSecurity security_;
  std::optional<TemporaryFolder> folder_;  // Of one that serves. The last to go.
  ActorHost host_;
  std::unique_ptr<ThreadPool> executor_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<CallRouter> router_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<LocalActors> actors_;
  mutable Mutex mutex_;
  std::unique_ptr<EmbeddedCluster> cluster_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ProcessActors> processes_ ABSL_GUARDED_BY(mutex_);
  std::atomic<ProcessActors*> known_{nullptr};  // processes_, once it is there.
};

absl::StatusOr<Runtime> Runtime::Local(RuntimeOptions options) {
  BecomeWorkerIfStartedAsOne();
  if (options.name.empty()) return absl::InvalidArgumentError("a runtime has a name");
  RpcSecurity security;
  security.token = Token::Generate();
  auto parts = std::make_unique<Parts>(options);
  TROUPE_RETURN_IF_ERROR(parts->Start(std::move(security), static_cast<bool>(RegisteredEmbeddedCluster())));
  return Runtime(std::move(parts));
}

absl::StatusOr<Runtime> Runtime::Connect(const std::string& head_target, RpcSecurity security, RuntimeOptions options) {
  BecomeWorkerIfStartedAsOne();
  if (options.name.empty()) return absl::InvalidArgumentError("a runtime has a name");
  auto parts = std::make_unique<Parts>(options);
  TROUPE_RETURN_IF_ERROR(parts->Start(std::move(security), true));
  TROUPE_RETURN_IF_ERROR(parts->UseHead(head_target));
  return Runtime(std::move(parts));
}

Runtime::Runtime(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

absl::StatusOr<std::vector<ActorAddress>> Runtime::SpawnProcesses(const std::string& actor_class,
                                                                  const std::string& arguments,
                                                                  const SpawnOptions& options, size_t size) {
  return parts_->SpawnProcesses(actor_class, arguments, options, size);
}

ActorSpawner& Runtime::spawner() const { return *parts_; }
const std::shared_ptr<CallRouter>& Runtime::router() const { return parts_->router(); }

}  // namespace troupe
