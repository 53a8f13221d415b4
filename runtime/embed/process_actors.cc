// SPDX-License-Identifier: Apache-2.0
#include "runtime/embed/process_actors.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/process.h"
#include "runtime/env/random.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "runtime/worker/actor_directory.h"
#include "runtime/worker/directory_follower.h"

namespace troupe {
namespace {

constexpr absl::Duration kRequestTimeout = absl::Seconds(30);
// Of the first word with a head.
constexpr absl::Duration kHeadTimeout = absl::Seconds(10);
// How often the job's end is looked for while its actors start.
constexpr absl::Duration kStartPoll = absl::Milliseconds(50);
constexpr absl::Duration kStopGrace = absl::Seconds(10);
// When the head is away as a parent ends. The runtime's own end cancels what is left.
constexpr absl::Duration kEndRetry = absl::Seconds(2);
constexpr int kEndTries = 300;

// As of v1::Head::Stub::async().
template <typename Request, typename Response>
using HeadMethod = void (v1::Head::StubInterface::async_interface::*)(grpc::ClientContext*, const Request*, Response*,
                                                                      std::function<void(grpc::Status)>);

// Begins an RPC. Who waits for the future on an actor's thread lets other actors run meanwhile; it ends within
// `timeout`.
template <typename Request, typename Response>
Future<Response> Begin(v1::Head::Stub& head, HeadMethod<Request, Response> method, Request request,
                       absl::Duration timeout) {
  struct Rpc {
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  auto rpc = std::make_shared<Rpc>();
  rpc->request = std::move(request);
  SetTimeout(rpc->context, timeout);
  Promise<Response> promise;
  Future<Response> future = promise.TakeFuture();
  (head.async()->*method)(&rpc->context, &rpc->request, &rpc->response,
                          [rpc, promise = std::move(promise)](const grpc::Status& status) {
                            if (!status.ok()) return promise.Set(FromGrpc(status));
                            promise.Set(std::move(rpc->response));
                          });
  return future;
}

using AsyncHead = v1::Head::StubInterface::async_interface;

v1::RoleSpec RoleOf(const std::string& name, const std::string& actor_class, const std::string& arguments,
                    const SpawnOptions& options) {
  v1::RoleSpec role;
  role.set_role(name);
  role.set_actor_class(actor_class);
  role.set_replicas(1);
  role.set_args(arguments);
  role.set_worker_binary(options.worker_binary.empty() ? OwnProgramPath() : options.worker_binary);
  role.mutable_resources()->set_cpus(options.cpus);
  role.mutable_resources()->set_memory_bytes(options.memory_bytes);
  role.mutable_resources()->set_devices(options.devices);
  role.mutable_resources()->set_device_share(options.device_share);
  role.mutable_resources()->set_device_kind(options.device_kind);
  role.mutable_restart()->set_max_restarts(options.restart.max);
  role.mutable_restart()->set_window_ms(absl::ToInt64Milliseconds(options.restart.window));
  role.mutable_restart()->set_backoff_initial_ms(absl::ToInt64Milliseconds(options.restart.backoff_initial));
  role.mutable_restart()->set_backoff_max_ms(absl::ToInt64Milliseconds(options.restart.backoff_max));
  role.mutable_restart()->set_on_exception(options.restart.on_exception);
  for (const auto& [variable, value] : options.environment) role.add_environment(variable + "=" + value);
  role.set_mailbox_messages_max(static_cast<int64_t>(options.mailbox.messages_max));
  role.set_mailbox_bytes_max(static_cast<int64_t>(options.mailbox.bytes_max));
  return role;
}

bool HasEnded(v1::JobState state) {
  return state == v1::JOB_SUCCEEDED || state == v1::JOB_FAILED || state == v1::JOB_CANCELLED;
}

}  // namespace

// Constant once its actors are ready.
struct ProcessActors::Job {
  SpawnOptions options;
  std::string actor_class;
  std::vector<std::string> names;  // Of its actors; each is a role.
  std::string id;
  std::unique_ptr<ActorDirectory> directory;
  std::unique_ptr<DirectoryFollower> follower;  // Before the directory goes.
  uint64_t parent_watch = 0;
  bool dropped = false;  // Under mutex_.
};

ProcessActors::ProcessActors(ProcessActorsOptions options, LocalActors& names, Executor& executor,
                             std::shared_ptr<Transport> transport)
    : options_(std::move(options)),
      names_(names),
      executor_(executor),
      transport_(std::move(transport)),
      channel_(MakeChannel(options_.head_target, options_.security)),
      stub_(v1::Head::NewStub(channel_)) {}

ProcessActors::~ProcessActors() {
  std::map<std::string, JobPtr> actors;
  {
    MutexLock lock(mutex_);
    actors.swap(actors_);
  }
  std::set<JobPtr> jobs;
  for (const auto& [name, job] : actors) jobs.insert(job);
  std::erase_if(jobs, [](const JobPtr& job) { return job->options.detached; });
  // All of them stop at the same time.
  std::vector<Future<v1::Job>> stops;
  for (const JobPtr& job : jobs) stops.push_back(BeginStop(job->id));
  for (Future<v1::Job>& stop : stops) (void)stop.Get();
  for (const JobPtr& job : jobs) (void)Cancel(job->id, kStopGrace);
}

absl::Status ProcessActors::CheckHead() {
  absl::Status status =
      Begin<v1::ListNodesRequest, v1::ListNodesResponse>(*stub_, &AsyncHead::ListNodes, {}, kHeadTimeout)
          .Get()
          .status();
  return Annotate(status, "the head at " + options_.head_target);
}

absl::StatusOr<std::vector<ActorAddress>> ProcessActors::Spawn(const std::string& actor_class,
                                                               const std::string& arguments, SpawnOptions options,
                                                               const ActorLife* parent, size_t size, bool group) {
  Sweep();
  auto job = std::make_shared<Job>();
  job->actor_class = actor_class;
  if (options.name.empty()) {
    MutexLock lock(mutex_);
    options.name = actor_class + "-p" + std::to_string(++unnamed_);
  }
  for (size_t i = 0; i < size; ++i) job->names.push_back(options.name + (group ? "." + std::to_string(i) : ""));
  job->options = std::move(options);
  std::string what = (group ? "group " : "actor ") + job->options.name + " (" + actor_class + ")";
  TROUPE_RETURN_IF_ERROR(ReserveNames(*job));
  absl::StatusOr<std::vector<ActorAddress>> addresses = Start(job, arguments, parent);
  if (!addresses.ok()) Drop(job);
  if (!addresses.ok()) return Annotate(addresses.status(), what);
  MutexLock lock(mutex_);
  for (const std::string& name : job->names) actors_[name] = job;
  some_ended_ = true;  // One may have ended before it stood here.
  return addresses;
}

absl::Status ProcessActors::ReserveNames(Job& job) {
  for (size_t i = 0; i < job.names.size(); ++i) {
    absl::Status reserved = names_.Reserve(job.names[i]);
    if (reserved.ok()) continue;
    for (size_t taken = 0; taken < i; ++taken) names_.Release(job.names[taken]);
    return reserved;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ActorAddress>> ProcessActors::Start(const JobPtr& job, const std::string& arguments,
                                                               const ActorLife* parent) {
  TROUPE_ASSIGN_OR_RETURN(job->id, Submit(*job, job->actor_class, arguments));
  // By rings to those of this program's own node; without one, over the network.
  job->directory =
      std::make_unique<ActorDirectory>(JobId(job->id), options_.node_id, transport_,
                                       [transport = transport_](const ActorLife& life, const v1::ExitCause& cause) {
                                         transport->MarkDead(life, cause);
                                       });
  job->directory->AddListener([this](const DirectoryEntry& entry) {
    if (entry.state == v1::ACTOR_DEAD) some_ended_ = true;
  });
  job->follower = std::make_unique<DirectoryFollower>(channel_, JobId(job->id), *job->directory);
  if (parent != nullptr && !job->options.detached) {
    // Whatever lives the actors are in by then.
    job->parent_watch = transport_->Watch({*parent, ""}, [this, id = job->id](const ActorLife&, const v1::ExitCause&) {
      executor_.Post([this, id] { End(id, kEndTries); });
    });
  }
  std::vector<ActorAddress> addresses;
  absl::Status ready = AwaitReady(*job, addresses);
  if (ready.ok()) return addresses;
  (void)Cancel(job->id, kStopGrace);
  return ready;
}

absl::StatusOr<std::string> ProcessActors::Submit(const Job& job, const std::string& actor_class,
                                                  const std::string& arguments) {
  v1::SubmitJobRequest request;
  request.set_request_id(RandomHex(16));
  request.mutable_spec()->set_name(options_.name);
  request.mutable_spec()->set_output_dir(options_.output_dir + "/" + job.options.name);
  for (const std::string& name : job.names) {
    *request.mutable_spec()->add_roles() = RoleOf(name, actor_class, arguments, job.options);
  }
  TROUPE_ASSIGN_OR_RETURN(v1::SubmitJobResponse response,
                          (Begin<v1::SubmitJobRequest, v1::SubmitJobResponse>(*stub_, &AsyncHead::SubmitJob,
                                                                              std::move(request), kRequestTimeout)
                               .Get()));
  return response.job_id();
}

absl::Status ProcessActors::AwaitReady(Job& job, std::vector<ActorAddress>& addresses) {
  Monotonic deadline = MonotonicNow() + job.options.start_timeout;
  absl::Status last;
  while (MonotonicNow() < deadline) {
    const std::string& name = job.names[addresses.size()];
    absl::StatusOr<DirectoryEntry> ready = job.directory->WaitFor(name, 0, MonotonicNow() + kStartPoll);
    if (ready.ok()) addresses.push_back(ready->address);
    if (addresses.size() == job.names.size()) return absl::OkStatus();
    if (ready.ok()) continue;
    last = ready.status();
    v1::GetJobRequest request;
    request.set_job_id(job.id);
    absl::StatusOr<v1::Job> seen =
        Begin<v1::GetJobRequest, v1::Job>(*stub_, &AsyncHead::GetJob, std::move(request), kRequestTimeout).Get();
    if (!seen.ok() || !HasEnded(seen->state())) continue;
    return absl::FailedPreconditionError("it did not start: " + seen->reason());
  }
  return absl::DeadlineExceededError("it did not start within " + absl::FormatDuration(job.options.start_timeout) +
                                     " (SpawnOptions::start_timeout): " + MessageOf(last));
}

Future<v1::Job> ProcessActors::BeginStop(const std::string& job_id) {
  v1::StopJobRequest request;
  request.set_job_id(job_id);
  return Begin<v1::StopJobRequest, v1::Job>(*stub_, &AsyncHead::StopJob, std::move(request), kRequestTimeout);
}

void ProcessActors::End(const std::string& job_id, int tries) {
  Future<v1::Job> stop = BeginStop(job_id);
  executor_.Wait(*stop.base(), Monotonic::Infinite());
  absl::Status begun = stop.Get().status();
  if (begun.ok() || absl::IsNotFound(begun) || tries == 0) return;
  executor_.PostAt(executor_.Now() + kEndRetry, [this, job_id, tries] { End(job_id, tries - 1); });
}

absl::Status ProcessActors::Cancel(const std::string& job_id, absl::Duration grace) {
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  request.set_grace_ms(std::max<int64_t>(absl::ToInt64Milliseconds(grace), 1));
  return Begin<v1::CancelJobRequest, v1::Job>(*stub_, &AsyncHead::CancelJob, std::move(request),
                                              grace + kRequestTimeout)
      .Get()
      .status();
}

void ProcessActors::Drop(const JobPtr& job) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(job->dropped, true)) return;
    std::erase_if(actors_, [&job](const auto& actor) { return actor.second == job; });
  }
  if (job->parent_watch != 0) transport_->Unwatch(job->parent_watch);
  for (const std::string& name : job->names) names_.Release(name);
  executor_.Post([job] {});  // The last to hold it: this may be a callback on the follower's own thread.
}

void ProcessActors::Sweep() {
  if (!some_ended_.exchange(false)) return;
  std::set<JobPtr> ended;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, job] : actors_) ended.insert(job);
  }
  std::erase_if(ended, [](const JobPtr& job) {
    return std::any_of(job->names.begin(), job->names.end(), [&job](const std::string& name) {
      std::optional<DirectoryEntry> known = job->directory->Find(name, 0);
      return !known.has_value() || known->state != v1::ACTOR_DEAD;
    });
  });
  for (const JobPtr& job : ended) Drop(job);
}

ProcessActors::JobPtr ProcessActors::JobOf(const std::string& name) const {
  auto found = actors_.find(name);
  return found == actors_.end() ? nullptr : found->second;
}

ActorInfo ProcessActors::InfoOf(const Job& job, const std::string& name) {
  ActorInfo info;
  info.actor_class = job.actor_class;
  info.labels = job.options.labels;
  if (std::optional<DirectoryEntry> known = job.directory->Find(name, 0); known.has_value()) {
    info.address = known->address;
    info.restarts = known->restarts;
    info.alive = known->ready();
    info.reason = known->reason;
  }
  return info;
}

absl::StatusOr<ActorInfo> ProcessActors::Find(const std::string& name) {
  Sweep();
  JobPtr job;
  {
    MutexLock lock(mutex_);
    job = JobOf(name);
  }
  std::optional<DirectoryEntry> known = job == nullptr ? std::nullopt : job->directory->Find(name, 0);
  if (known.has_value() && known->state != v1::ACTOR_DEAD) return InfoOf(*job, name);
  return absl::NotFoundError("there is no actor named '" + name + "'" +
                             (known.has_value() ? " any more: " + known->last_exit.text() : ""));
}

std::vector<ActorInfo> ProcessActors::List() {
  Sweep();
  std::map<std::string, JobPtr> actors;
  {
    MutexLock lock(mutex_);
    actors = actors_;
  }
  std::vector<ActorInfo> list;
  for (const auto& [name, job] : actors) list.push_back(InfoOf(*job, name));
  return list;
}

bool ProcessActors::Owns(const ActorLife& life) const {
  MutexLock lock(mutex_);
  JobPtr job = JobOf(life.path.role);
  return job != nullptr && job->id == life.path.job.value();
}

absl::Status ProcessActors::Stop(const ActorLife& life, const std::string& reason, absl::Duration grace) {
  JobPtr job;
  {
    MutexLock lock(mutex_);
    job = JobOf(life.path.role);
  }
  if (job == nullptr || job->id != life.path.job.value()) return absl::OkStatus();
  std::optional<DirectoryEntry> newest = job->directory->Find(life.path.role, 0);
  if (newest.has_value() && newest->life().incarnation > life.incarnation) return absl::OkStatus();  // It stays.
  TROUPE_RETURN_IF_ERROR(Cancel(job->id, grace));
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::STOPPED);
  cause.set_text(reason);
  // The head's news of it may come later.
  for (const std::string& name : job->names) {
    if (std::optional<DirectoryEntry> known = job->directory->Find(name, 0)) transport_->MarkDead(known->life(), cause);
  }
  Drop(job);
  return absl::OkStatus();
}

}  // namespace troupe
