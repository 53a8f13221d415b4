// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker/worker_process.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "runtime/actor/actor.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/tcp.h"
#include "runtime/rpc/channel.h"
#include "runtime/worker/worker_socket.h"

namespace troupe {
namespace {

// A tenth of the time after which the agent takes it for hung, within bounds.
constexpr absl::Duration kHeartbeatMin = absl::Milliseconds(20);
constexpr absl::Duration kHeartbeatMax = absl::Seconds(1);
constexpr int kHeartbeatsPerHangTimeout = 10;
// For what the actor's services are doing when it stops.
constexpr absl::Duration kServerGrace = absl::Seconds(1);
// Of a worker whom its agent does not know.
constexpr absl::Duration kUnknownGrace = absl::Seconds(5);
constexpr absl::Duration kStartFailedGrace = absl::Seconds(10);
// From the actor's end until its cell has noted it.
constexpr absl::Duration kEndedGrace = absl::Seconds(10);
// For the handlers of children when the actor has ended by itself.
constexpr absl::Duration kChildrenGrace = absl::Seconds(30);
constexpr absl::Duration kStopPoll = absl::Milliseconds(100);

ActorSetting SettingOf(const v1::WorkerAssignment& assignment, const WorkerOptions& options,
                       const RpcSecurity& security) {
  ActorSetting setting;
  setting.self = options.self;
  setting.node_id = assignment.node_id();
  setting.role = assignment.start().role();
  setting.restarts = assignment.start().attempt();
  setting.group_generation = assignment.start().group_generation();
  setting.output_dir = assignment.start().output_dir();
  setting.config_json = assignment.start().config_json();
  setting.head_endpoint = assignment.start().head_endpoint();
  setting.object_socket = assignment.object_socket();
  setting.security = security;
  setting.endpoint = "unix:" + WorkerSocketPath(options.agent_socket, options.self);
  return setting;
}

absl::StatusOr<std::unique_ptr<Actor>> Construct(const ActorClass& actor_class, const v1::RoleSpec& role,
                                                 const std::shared_ptr<CallRouter>& router) {
  if (role.args().empty()) return ActorRegistry::Global().ConstructFromJson(actor_class.name, role.args_json());
  absl::StatusOr<std::unique_ptr<Actor>> actor = actor_class.construct(role.args(), router);
  if (!actor.ok()) return Annotate(actor.status(), "actor class " + actor_class.name);
  return actor;
}

ActorCellOptions CellOptionsOf(const v1::RoleSpec& role) {
  ActorCellOptions options;
  if (role.mailbox_messages_max() > 0) options.mailbox.messages_max = static_cast<size_t>(role.mailbox_messages_max());
  if (role.mailbox_bytes_max() > 0) options.mailbox.bytes_max = static_cast<size_t>(role.mailbox_bytes_max());
  options.ends_on_exception = role.restart().on_exception();
  return options;
}

// What is a failure goes to stderr, which logs mark.
void Say(const ActorLife& self, const std::string& text, std::ostream& to = std::cout) {
  to << "worker " << self.ToString() << ": " << text << std::endl;
}

}  // namespace

WorkerProcess::WorkerProcess(WorkerOptions options) : options_(std::move(options)) { security_.token = options_.token; }

WorkerProcess::~WorkerProcess() {
  link_ = nullptr;
  if (objects_ != nullptr) objects_->Shutdown();
}

int WorkerProcess::Run() {
  AgentLink::Events events;
  events.assigned = [this](const v1::WorkerAssignment& assignment) {
    MutexLock lock(mutex_);
    assignment_ = assignment;
    changed_.NotifyAll();
  };
  events.stop = [this](const v1::WorkerStop& stop) { Stop(stop.reason(), absl::Milliseconds(stop.grace_ms())); };
  events.unknown = [this](const absl::Status& status) { Ask(StatusText(status), kUnknownGrace, kUnknownWorker); };
  link_ = std::make_unique<AgentLink>(MakeChannel("unix:" + options_.agent_socket, security_), options_.self,
                                      options_.last_word_max, events);
  int exit_code = Live();
  link_->Close();
  return exit_code;
}

int WorkerProcess::Live() {
  std::optional<v1::WorkerAssignment> assignment = AwaitAssignment();
  if (!assignment.has_value()) return AwaitStop();
  absl::Duration hang_timeout = absl::Milliseconds(assignment->start().hang_timeout_ms());
  if (hang_timeout > absl::ZeroDuration()) {
    link_->SetHeartbeatInterval(std::clamp(hang_timeout / kHeartbeatsPerHangTimeout, kHeartbeatMin, kHeartbeatMax));
  }
  if (absl::Status started = Start(*assignment); !started.ok()) {
    Say(options_.self, "could not start: " + StatusText(started), std::cerr);
    link_->SayStartFailed(started);
    return kStartFailed;
  }
  const ActorSetting& setting = context_->setting();
  link_->SayReady(setting.endpoint, setting.remote_endpoint);
  return AwaitStop();
}

std::optional<v1::WorkerAssignment> WorkerProcess::AwaitAssignment() {
  {
    MutexLock lock(mutex_);
    changed_.WaitUntil(lock, MonotonicNow() + options_.assignment_timeout,
                       [this] { return assignment_.has_value() || stop_.has_value(); });
    if (assignment_.has_value()) return assignment_;
  }
  Ask("no assignment came from " + options_.agent_socket, absl::ZeroDuration(), kUnknownWorker);
  return std::nullopt;
}

absl::Status WorkerProcess::Start(const v1::WorkerAssignment& assignment) {
  security_.ca_file = assignment.ca_file();
  security_.cert_file = assignment.cert_file();
  security_.key_file = assignment.key_file();
  security_.insecure = assignment.insecure();
  ActorSetting setting = SettingOf(assignment, options_, security_);
  TROUPE_ASSIGN_OR_RETURN(const ActorClass* actor_class, ActorRegistry::Global().Find(setting.role.actor_class()));
  TransportOptions transport_options;
  transport_options.process_name = setting.self.ToString();
  transport_options.security = security_;
  transport_options.log = [self = options_.self](const std::string& line) { Say(self, line); };
  transport_ = Transport::Create(transport_options, host_);
  std::shared_ptr<grpc::Channel> head;
  if (!setting.head_endpoint.empty()) head = MakeChannel(setting.head_endpoint, security_);
  router_ = std::make_shared<FollowingRouter>(setting.self.path.job, transport_, head);
  objects_ = ObjectStore::Create({.name = setting.self.ToString()});
  if (!setting.object_socket.empty()) objects_->UseBroker(setting.object_socket, setting.self);
  router_->SetObjects(objects_);
  directory_ = std::make_unique<ActorDirectory>(
      setting.self.path.job, setting.node_id, router_,
      [this](const ActorLife& life, const v1::ExitCause& cause) { transport_->MarkDead(life, cause); });

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Actor> actor, Construct(*actor_class, setting.role, router_));
  TROUPE_RETURN_IF_ERROR(Serve(assignment.host(), setting, actor->Services()));
  children_ = std::make_unique<LocalActors>(
      setting, host_, router_, children_executor_,
      [this](const ActorLife& life, const v1::ExitCause& cause) { transport_->MarkDead(life, cause); },
      directory_.get());
  {
    MutexLock lock(mutex_);
    context_ = std::make_unique<ActorContext>(setting, router_, directory_.get());
    context_->SetSpawner(children_.get());
    if (stop_.has_value()) context_->SetStopping();
  }
  ActorCellOptions cell_options = CellOptionsOf(setting.role);
  cell_options.idle = transport_->idle_work();
  cell_options.before_destructor = [this] { StopServing(); };
  cell_options.ended = [this](const v1::ExitCause& cause) { ActorEnded(cause); };
  cell_ = std::make_shared<ActorCell>(*actor_class, std::move(actor), *context_, std::move(cell_options));
  if (head != nullptr) follower_ = std::make_unique<DirectoryFollower>(head, setting.self.path.job, *directory_);
  if (absl::Status started = cell_->Start(); !started.ok()) {
    // It still ends on its own thread, with what this object holds.
    static_cast<void>(cell_->Stop("it could not start", MonotonicNow() + kStartFailedGrace));
    return started;
  }
  host_.Add(cell_);
  return absl::OkStatus();
}

absl::Status WorkerProcess::Serve(const std::string& host, ActorSetting& setting,
                                  std::vector<grpc::Service*> services) {
  RpcServerOptions options;
  options.addresses = {setting.endpoint};
  if (!host.empty()) options.addresses.push_back(TcpAddress{host, 0}.ToString());
  options.security = security_;
  services.insert(services.begin(), transport_->service());
  if (absl::Status rings = transport_->ServeRings(setting.endpoint); !rings.ok()) {
    Say(options_.self, "others reach it by gRPC alone: " + StatusText(rings));
  }
  TROUPE_ASSIGN_OR_RETURN(server_, RpcServer::Start(options, services));
  if (!host.empty()) setting.remote_endpoint = TcpAddress{host, server_->ports()[1]}.ToString();
  return absl::OkStatus();
}

void WorkerProcess::StopServing() {
  std::string reason = "the actor that spawned it has ended";
  if (children_ != nullptr && !children_->Shutdown(reason, MonotonicNow() + kChildrenGrace)) {
    bool asked = false;  // Then its grace ends the waiting.
    {
      MutexLock lock(mutex_);
      asked = stop_.has_value();
    }
    if (!asked) Ask("a child of the actor did not stop", absl::ZeroDuration(), kGraceOver);
    children_->Shutdown(reason, Monotonic::Infinite());
  }
  if (router_ != nullptr) router_->Close();
  if (transport_ != nullptr) transport_->Shutdown();
  if (server_ != nullptr) server_->Shutdown(kServerGrace);
}

void WorkerProcess::ActorEnded(const v1::ExitCause& cause) {
  {
    MutexLock lock(mutex_);
    if (stop_.has_value() || cause.kind() == v1::ExitCause::START_FAILED) return;
  }
  link_->SayEnded(cause.text());
  bool failed = cause.kind() != v1::ExitCause::STOPPED;
  Ask((failed ? "the actor failed: " : "the actor ended itself: ") + cause.text(), kEndedGrace,
      failed ? kFailed : kStopped);
}

void WorkerProcess::Stop(const std::string& reason, absl::Duration grace) { Ask(reason, grace, kStopped); }

void WorkerProcess::Ask(const std::string& reason, absl::Duration grace, int exit_code) {
  Monotonic deadline = MonotonicNow() + grace;
  MutexLock lock(mutex_);
  if (!stop_.has_value()) {
    stop_ = StopOrder{reason, deadline, exit_code};
    if (context_ != nullptr) context_->SetStopping();
  }
  stop_->deadline = std::min(stop_->deadline, deadline);
  changed_.NotifyAll();
}

int WorkerProcess::AwaitStop() {
  {
    MutexLock lock(mutex_);
    changed_.WaitUntil(lock, Monotonic::Infinite(), [this] { return stop_.has_value(); });
    Say(options_.self, "stops: " + stop_->reason);
  }
  return StopActor();
}

int WorkerProcess::StopActor() {
  while (true) {
    StopOrder order;
    {
      MutexLock lock(mutex_);
      order = *stop_;
    }
    // In slices: a later order may have a shorter grace.
    Monotonic slice = std::min(order.deadline, MonotonicNow() + kStopPoll);
    if (cell_ == nullptr || cell_->Stop(order.reason, slice)) return order.exit_code;
    if (MonotonicNow() >= order.deadline) {
      Say(options_.self, "the actor did not stop within its grace", std::cerr);
      return kGraceOver;
    }
  }
}

}  // namespace troupe
