// SPDX-License-Identifier: Apache-2.0
// The driver of AgentState: one thread takes events from the links and the workers' service, steps, and does the
// actions in order.
#include "runtime/agent/node_agent.h"

#include <unistd.h>

#include <deque>
#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"
#include "runtime/agent/agent_state.h"
#include "runtime/agent/cpu_sets.h"
#include "runtime/agent/head_link.h"
#include "runtime/agent/keeper_link.h"
#include "runtime/agent/runtime_folder.h"
#include "runtime/agent/worker_service.h"
#include "runtime/agent/worker_spawn.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/device/device_watch.h"
#include "runtime/device/node_devices.h"
#include "runtime/device/pci.h"
#include "runtime/env/clock.h"
#include "runtime/env/cpu_list.h"
#include "runtime/env/file.h"
#include "runtime/env/process.h"
#include "runtime/env/random.h"
#include "runtime/env/tcp.h"
#include "runtime/object/object_broker.h"
#include "runtime/object/object_exchange.h"
#include "runtime/rpc/server.h"
#include "runtime/worker/worker_socket.h"

namespace troupe {
namespace agent {
namespace {

// Beyond the grace of a shutdown: killing, reaping, the last acknowledgements.
constexpr absl::Duration kShutdownSlack = absl::Seconds(15);
constexpr absl::Duration kKeeperEnd = absl::Seconds(15);
// In which workers of an agent before say again what objects they have.
constexpr absl::Duration kObjectResync = absl::Seconds(3);
constexpr absl::Duration kFlush = absl::Milliseconds(500);
constexpr int64_t kPortFileBytesMax = 16;
constexpr size_t kEventsMax = 256;  // Waiting: from here on the head's stream waits, too.

std::string OwnFolder() { return std::filesystem::path(OwnProgramPath()).parent_path().string(); }

absl::StatusOr<std::string> ProgramPath(const std::string& given, const std::string& name, const char* what) {
  std::string path = given.empty() ? OwnFolder() + "/" + name : std::filesystem::absolute(given).string();
  if (::access(path.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        std::string(what) + " " + path +
        " is missing or cannot be executed: put it beside the program that starts it (tools/install and "
        "tools/build lay it there), or name another one in that program's options");
  }
  return path;
}

std::string NewNodeId() {
  char host[64] = {};
  ::gethostname(host, sizeof(host) - 1);
  return std::string(host) + "-" + RandomHex(4);
}

class NodeAgentImpl : public NodeAgent {
 public:
  explicit NodeAgentImpl(AgentOptions options) : options_(std::move(options)), service_(MakeSink()) {}

  absl::Status Open();

  ~NodeAgentImpl() override {
    StopLoop();
    watch_.reset();
    head_.reset();
    server_.reset();
    keeper_.reset();
    broker_.reset();
    exchange_.reset();  // After it: the workers live on, and keep what other nodes hold.
  }

  absl::Status WaitRegistered(absl::Duration timeout) override {
    MutexLock lock(mutex_);
    changed_.WaitUntil(lock, MonotonicNow() + timeout, [&] { return registered_ || !refused_.ok(); });
    if (registered_) return absl::OkStatus();
    if (!refused_.ok()) return refused_;
    return absl::DeadlineExceededError("not registered with the head at " + options_.head_target + " within " +
                                       absl::FormatDuration(timeout) + (last_said_.empty() ? "" : ": ") + last_said_);
  }

  absl::Status Shutdown(absl::Duration grace) override;

  std::string node_id() const override { return node_id_; }
  std::string runtime_dir() const override { return folder_->path(); }
  std::string object_socket() const override { return folder_->object_socket(); }
  int64_t keeper_pid() const override { return keeper_->keeper_pid(); }
  std::string endpoint() const override { return endpoint_; }

 private:
  std::function<void(AgentEvent)> MakeSink() {
    return [this](AgentEvent event) { Push(std::move(event)); };
  }
  void Push(AgentEvent event) {
    MutexLock lock(mutex_);
    if (auto* gone = std::get_if<HeadDisconnected>(&event); gone != nullptr && absl::IsUnauthenticated(gone->status)) {
      refused_ = gone->status;
      changed_.NotifyAll();
    }
    // The head would say it all again; the loop is behind, so the link waits like a full socket.
    if (std::holds_alternative<HeadSaid>(event)) {
      changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return events_.size() < kEventsMax || stop_loop_; });
    }
    events_.push_back(std::move(event));
    changed_.NotifyAll();
  }

  v1::WorkerAssignment AssignmentOfAll() const;
  absl::Status OpenServer();
  absl::Status FindDevices();
  absl::StatusOr<v1::AgentIdentity> OpenIdentity();
  // Under which other nodes reach this one; "": not at all.
  absl::StatusOr<std::string> FindHost() const;
  absl::Status OpenExchange();
  absl::Status OpenState(const v1::AgentIdentity& identity);
  void OpenCpuSets(const std::vector<v1::AssignedWorker>& assigned);
  void Loop();
  void StopLoop();
  void Handle(const AgentEvent& event);

  void Do(const KeepIdentity& action);
  void Do(const KeepAssignment& action);
  void Do(const ForgetAssignment& action) {
    unkept_.erase(action.actor);
    folder_->ForgetAssignment(action.actor);
  }
  void Do(const SpawnWorker& action);
  void Do(const SignalWorker& action) { keeper_->Signal(action.actor, action.signal); }
  void Do(const AcknowledgeToKeeper& action) { keeper_->AcknowledgeExit(action.actor); }
  void Do(const TellHead& action) {
    if (head_ != nullptr) head_->Send(head_stream_, action.message);
  }
  void Do(const HangUpHead& action) {
    Log(action.reason);
    if (head_ != nullptr) head_->HangUp(head_stream_);
  }
  void Do(const SetHeartbeat& action) {
    if (head_ != nullptr) head_->SetHeartbeat(head_stream_, action.interval, action.node_incarnation);
  }
  void Do(const TellWorker& action) { service_.Send(action.session, action.message); }
  void Do(const HangUpWorker& action) { service_.HangUp(action.session, action.status); }
  void Do(const ReleaseWorker& action) {
    cpu_sets_.Release(action.actor);
    cpus_.erase(action.actor);
    broker_->OwnerEnded(action.actor, action.cause);
    ::unlink(WorkerSocketPath(folder_->agent_socket(), action.actor).c_str());
  }
  void Do(const Say& action) { Log(action.text); }
  void Do(const Finished&) {
    MutexLock lock(mutex_);
    finished_ = true;
    changed_.NotifyAll();
  }
  void Log(const std::string& text) {
    {
      MutexLock lock(mutex_);
      last_said_ = text;
    }
    if (options_.log) options_.log(text);
  }

  AgentOptions options_;
  std::string node_id_;
  std::string host_;
  std::string endpoint_;
  bool adopts_ = false;  // Workers of an agent before this one.
  v1::Resources resources_;
  device::NodeDevices devices_;  // Until the watch has them.
  std::unique_ptr<RuntimeFolder> folder_;
  WorkerSpawnOptions spawn_;
  std::optional<AgentState> state_;             // Of the loop's thread, once it runs.
  uint64_t head_stream_ = 0;                    // The same.
  CpuSets cpu_sets_{{}, {}};                    // The same.
  std::map<ActorLife, std::vector<int>> cpus_;  // Given, of workers that are to be started. The same.
  std::map<ActorLife, absl::Status> unkept_;    // Assignments that no file holds, and why. The same.

  Mutex mutex_;
  ConditionVariable changed_;
  // Bounded by its sources: a session has few events waiting, the keeper answers orders, the head's link waits.
  std::deque<AgentEvent> events_ ABSL_GUARDED_BY(mutex_);
  bool stop_loop_ ABSL_GUARDED_BY(mutex_) = false;
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refused_ ABSL_GUARDED_BY(mutex_);  // What the head said to a token that it does not take.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::string last_said_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<ObjectBroker> broker_;
  std::unique_ptr<ObjectExchange> exchange_;
  WorkerService service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<KeeperLink> keeper_;
  std::unique_ptr<HeadLink> head_;
  std::thread loop_;
  std::unique_ptr<device::DeviceWatch> watch_;
};

absl::Status NodeAgentImpl::Open() {
  TROUPE_ASSIGN_OR_RETURN(resources_, FindNodeResources(options_.resources));
  TROUPE_ASSIGN_OR_RETURN(std::string keeper_program,
                          ProgramPath(options_.keeper_program, "troupe_keeper", "the keeper's program"));
  if (options_.runtime_dir.empty()) options_.runtime_dir = DefaultRuntimeDir("node");
  TROUPE_RETURN_IF_ERROR(FindDevices());
  TROUPE_ASSIGN_OR_RETURN(folder_, RuntimeFolder::Open(options_.runtime_dir));
  folder_->RemoveDeadSockets();
  TROUPE_RETURN_IF_ERROR(OpenServer());
  TROUPE_ASSIGN_OR_RETURN(v1::AgentIdentity identity, OpenIdentity());
  TROUPE_ASSIGN_OR_RETURN(host_, FindHost());
  TROUPE_RETURN_IF_ERROR(OpenExchange());
  TROUPE_RETURN_IF_ERROR(OpenState(identity));
  TROUPE_ASSIGN_OR_RETURN(broker_,
                          ObjectBroker::Start({.socket_path = folder_->object_socket(),
                                               .worker_bytes_max = options_.worker_object_bytes_max,
                                               .node_id = node_id_,
                                               .endpoint = endpoint_,
                                               .spill_folder = folder_->path() + "/spill",
                                               .resync_grace = adopts_ ? kObjectResync : absl::ZeroDuration()}));
  if (exchange_ != nullptr) TROUPE_RETURN_IF_ERROR(exchange_->Join(folder_->object_socket()));
  KeeperLinkOptions keeper{.runtime_dir = folder_->path(),
                           .keeper_program = keeper_program,
                           .keeper_log = folder_->keeper_log(),
                           .agent_loss_grace = options_.agent_loss_grace,
                           .use_cgroups = options_.use_cgroups,
                           .log = [this](const std::string& text) { Log(text); }};
  TROUPE_ASSIGN_OR_RETURN(keeper_, KeeperLink::Start(std::move(keeper), MakeSink()));
  head_ = std::make_unique<HeadLink>(options_.head_target, options_.security, MakeSink());
  watch_ =
      std::make_unique<device::DeviceWatch>(std::move(devices_), [this](int index, const v1::DeviceHealth& health) {
        Push(DeviceHealthSeen{index, health});
      });
  if (!watch_->status().ok()) Log("the devices of this node are not watched: " + StatusText(watch_->status()));
  loop_ = std::thread([this] { Loop(); });
  return absl::OkStatus();
}

absl::Status NodeAgentImpl::FindDevices() {
  device::DevicePlaces places;
  places.environment = OwnEnvironment();
  places.sim_health_file = options_.runtime_dir + "/sim_devices";
  if (auto library = places.environment.find("TROUPE_NVML_LIBRARY"); library != places.environment.end()) {
    places.nvml_library = library->second;
  }
  TROUPE_ASSIGN_OR_RETURN(devices_, device::NodeDevices::Find(options_.resources.devices, places));
  for (const std::string& note : devices_.notes()) Log(note);
  resources_.set_devices(static_cast<int>(devices_.devices().size()));
  resources_.set_device_kind(devices_.empty() ? "" : devices_.kind());
  return absl::OkStatus();
}

absl::Status NodeAgentImpl::OpenServer() {
  RpcServerOptions server{.addresses = {"unix:" + folder_->agent_socket()}, .security = options_.security};
  TROUPE_ASSIGN_OR_RETURN(server_, RpcServer::Start(server, {&service_}));
  return absl::OkStatus();
}

absl::StatusOr<v1::AgentIdentity> NodeAgentImpl::OpenIdentity() {
  TROUPE_ASSIGN_OR_RETURN(v1::AgentIdentity identity, folder_->LoadIdentity());
  if (!options_.node_id.empty() && options_.node_id != identity.node_id()) {
    // Another node: what the head told the former one does not concern it, but a head's term does.
    identity.set_node_incarnation(0);
    identity.set_node_id(options_.node_id);
  }
  if (identity.node_id().empty()) identity.set_node_id(NewNodeId());
  TROUPE_RETURN_IF_ERROR(folder_->KeepIdentity(identity));
  node_id_ = identity.node_id();
  return identity;
}

absl::StatusOr<std::string> NodeAgentImpl::FindHost() const {
  std::string host = options_.host;
  if (host.empty() && options_.head_target.rfind("unix:", 0) != 0) {
    TROUPE_ASSIGN_OR_RETURN(const TcpAddress head, TcpAddress::Parse(options_.head_target));
    TROUPE_ASSIGN_OR_RETURN(host, LocalHostTowards(head));
  }
  if (!host.empty()) TROUPE_RETURN_IF_ERROR(CheckServable(TcpAddress{host, 0}, options_.security));
  return host;
}

absl::Status NodeAgentImpl::OpenExchange() {
  if (host_.empty()) return absl::OkStatus();
  // The port of the agent before it, if it is free: refs of this node's objects name it.
  std::string port_file = folder_->path() + "/objects.port";
  int port = 0;
  if (absl::StatusOr<std::string> before = ReadFile(port_file, kPortFileBytesMax); before.ok()) {
    if (!absl::SimpleAtoi(*before, &port) || !ProbeTcpBind({host_, port}).ok()) port = 0;
  }
  TROUPE_ASSIGN_OR_RETURN(exchange_, ObjectExchange::Start({.node_id = node_id_,
                                                            .address = TcpAddress{host_, port}.ToString(),
                                                            .security = options_.security}));
  endpoint_ = exchange_->endpoint();
  TROUPE_ASSIGN_OR_RETURN(TcpAddress address, TcpAddress::Parse(endpoint_));
  return WriteFileAtomic(port_file, std::to_string(address.port));
}

v1::WorkerAssignment NodeAgentImpl::AssignmentOfAll() const {
  v1::WorkerAssignment assignment;
  assignment.mutable_start()->set_head_endpoint(options_.head_target);
  assignment.set_object_socket(folder_->object_socket());
  assignment.set_host(host_);
  assignment.set_ca_file(options_.security.ca_file);
  assignment.set_cert_file(options_.security.cert_file);
  assignment.set_key_file(options_.security.key_file);
  assignment.set_insecure(options_.security.insecure);
  return assignment;
}

absl::Status NodeAgentImpl::OpenState(const v1::AgentIdentity& identity) {
  TROUPE_ASSIGN_OR_RETURN(std::vector<v1::AssignedWorker> assigned, folder_->LoadAssignments());
  adopts_ = !assigned.empty();

  AgentStateOptions state{.head_loss_grace = options_.head_loss_grace};
  state.assignment = AssignmentOfAll();
  state.registration.set_version(options_.version);
  *state.registration.mutable_resources() = resources_;
  state.registration.mutable_labels()->insert(options_.labels.begin(), options_.labels.end());
  state.registration.set_agent_endpoint(endpoint_);
  for (const device::OfferedDevice& device : devices_.devices()) {
    *state.registration.add_devices() = device.found.device;
    spawn_.devices.push_back(device.found);
  }
  state_.emplace(std::move(state), identity, assigned, MonotonicNow());
  OpenCpuSets(assigned);

  spawn_.worker_binary = options_.worker_binary.empty() ? OwnFolder() + "/troupe_worker"
                                                        : std::filesystem::absolute(options_.worker_binary).string();
  spawn_.runtime_dir = folder_->path();
  spawn_.agent_socket = folder_->agent_socket();
  spawn_.token = options_.security.token;
  spawn_.device_kind = resources_.device_kind();
  spawn_.environment = OwnEnvironment();
  return absl::OkStatus();
}

void NodeAgentImpl::OpenCpuSets(const std::vector<v1::AssignedWorker>& assigned) {
  spawn_.weigh_cpus = options_.cpu_isolation == CpuIsolation::kWeight;
  if (options_.cpu_isolation != CpuIsolation::kSet) return;
  const std::string sys = device::DevicePlaces().sys;
  std::map<int, std::vector<int>> numa_cpus;
  for (const device::FoundDevice& found : spawn_.devices) {
    const int node = found.device.numa_node();
    if (node >= 0) numa_cpus.emplace(node, device::CpusOfNumaNode(sys, node));
  }
  cpu_sets_ = CpuSets(UsableCpus(), std::move(numa_cpus));
  for (const v1::AssignedWorker& worker : assigned) cpu_sets_.Hold(worker.start(), ParseCpuList(worker.cpus()));
}

absl::Status NodeAgentImpl::Shutdown(absl::Duration grace) {
  Push(ShutdownRequested{grace});
  bool finished;
  {
    MutexLock lock(mutex_);
    finished = changed_.WaitUntil(lock, MonotonicNow() + grace + kShutdownSlack, [&] { return finished_; });
  }
  if (head_ != nullptr) head_->Flush(kFlush);
  StopLoop();
  watch_.reset();
  head_.reset();
  server_.reset();
  absl::Status ended = keeper_->ShutDownKeeper(kKeeperEnd);
  exchange_.reset();
  broker_.reset();
  folder_->RemoveDeadSockets();
  if (ended.ok() && options_.remove_runtime_dir) folder_->Remove();
  if (ended.ok() && !finished) ended = absl::DeadlineExceededError("some workers did not end within their grace");
  return ended;
}

// ---- The loop ----

void NodeAgentImpl::Loop() {
  Monotonic next_tick = MonotonicNow() + AgentState::kTickInterval;
  while (true) {
    std::deque<AgentEvent> events;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, next_tick, [&] { return stop_loop_ || !events_.empty(); });
      if (stop_loop_) return;
      events.swap(events_);
      changed_.NotifyAll();
    }
    for (const AgentEvent& event : events) Handle(event);
    if (MonotonicNow() >= next_tick) {
      Handle(TimePassed());
      watch_->CheckLate(MonotonicNow());
      next_tick = MonotonicNow() + AgentState::kTickInterval;
    }
  }
}

void NodeAgentImpl::StopLoop() {
  {
    MutexLock lock(mutex_);
    stop_loop_ = true;
    changed_.NotifyAll();
  }
  if (loop_.joinable()) loop_.join();
}

void NodeAgentImpl::Handle(const AgentEvent& event) {
  if (const auto* connected = std::get_if<HeadConnected>(&event)) head_stream_ = connected->stream;
  if (const auto* said = std::get_if<WorkerSaid>(&event); said != nullptr && said->message.has_heartbeat()) {
    service_.HeartbeatHandled(said->session);
  }
  for (const AgentAction& action : state_->Step(event, MonotonicNow())) {
    std::visit([&](const auto& a) { Do(a); }, action);
  }
  MutexLock lock(mutex_);
  if (registered_ != state_->registered()) changed_.NotifyAll();
  registered_ = state_->registered();
}

void NodeAgentImpl::Do(const KeepIdentity& action) { Handle(IdentityKept{folder_->KeepIdentity(action.identity)}); }

void NodeAgentImpl::Do(const KeepAssignment& action) {
  std::vector<int> numa_nodes;
  for (int index : action.start.device_indices()) {
    numa_nodes.push_back(spawn_.devices[static_cast<size_t>(index)].device.numa_node());
  }
  std::vector<int> cpus = cpu_sets_.Take(action.start, numa_nodes);
  const std::string cpus_text = CpuListText(cpus);
  if (!cpus.empty()) cpus_[ActorLife::FromProto(action.start.actor())] = std::move(cpus);
  if (options_.agent_loss_grace == absl::ZeroDuration()) return;  // Its workers end with this agent: no next one asks.
  v1::AssignedWorker assigned;
  *assigned.mutable_start() = action.start;
  assigned.set_cpus(cpus_text);
  absl::Status status = folder_->KeepAssignment(assigned);
  if (!status.ok()) unkept_[ActorLife::FromProto(action.start.actor())] = status;
}

void NodeAgentImpl::Do(const SpawnWorker& action) {
  // A worker that the next agent would not know is not started.
  if (auto unkept = unkept_.find(ActorLife::FromProto(action.start.actor())); unkept != unkept_.end()) {
    return Push(SpawnRefused{unkept->first, Annotate(unkept->second, "its assignment cannot be kept")});
  }
  auto cpus = cpus_.extract(ActorLife::FromProto(action.start.actor()));
  v1::KeeperSpawn spawn = SpawnOf(action.start, spawn_, cpus.empty() ? std::vector<int>() : cpus.mapped());
  // What is wrong with the folder shows in the start itself.
  static_cast<void>(MakeDirs(spawn.working_directory()));
  keeper_->Spawn(spawn);
}

}  // namespace
}  // namespace agent

absl::StatusOr<std::unique_ptr<NodeAgent>> NodeAgent::Start(AgentOptions options) {
  auto agent = std::make_unique<agent::NodeAgentImpl>(std::move(options));
  absl::Status status = agent->Open();
  if (!status.ok()) return status;
  return std::unique_ptr<NodeAgent>(std::move(agent));
}

}  // namespace troupe
