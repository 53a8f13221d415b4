// SPDX-License-Identifier: Apache-2.0
#include "runtime/embed/process_actors.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "runtime/worker/actor_directory.h"
#include "runtime/worker/directory_follower.h"

namespace troupe {
namespace {

constexpr absl::Duration kRequestTimeout = absl::Seconds(30);
// From the job's acceptance until OnStart has ended; it may wait for resources meanwhile.
constexpr absl::Duration kStartTimeout = absl::Minutes(2);
// How often the job's end is looked for while its actor starts.
constexpr absl::Duration kStartPoll = absl::Milliseconds(50);
constexpr absl::Duration kStopGrace = absl::Seconds(10);

std::string ProgramPath() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

v1::RoleSpec RoleOf(const std::string& actor_class, std::string arguments, const SpawnOptions& options) {
  v1::RoleSpec role;
  role.set_role(options.name);
  role.set_actor_class(actor_class);
  role.set_replicas(1);
  role.set_args(std::move(arguments));
  role.set_worker_binary(options.worker_binary.empty() ? ProgramPath() : options.worker_binary);
  role.mutable_resources()->set_cpus(options.cpus);
  role.mutable_resources()->set_memory_bytes(options.memory_bytes);
  role.mutable_resources()->set_devices(options.devices);
  role.mutable_resources()->set_device_share(options.device_share);
  role.mutable_resources()->set_device_kind(options.device_kind);
  role.mutable_restart()->set_max_restarts(options.restart.max);
  role.mutable_restart()->set_window_ms(absl::ToInt64Milliseconds(options.restart.window));
  role.mutable_restart()->set_backoff_initial_ms(absl::ToInt64Milliseconds(options.restart.backoff_initial));
  role.mutable_restart()->set_backoff_max_ms(absl::ToInt64Milliseconds(options.restart.backoff_max));
  return role;
}

bool HasEnded(v1::JobState state) {
  return state == v1::JOB_SUCCEEDED || state == v1::JOB_FAILED || state == v1::JOB_CANCELLED;
}

}  // namespace

struct ProcessActors::Entry {
  SpawnOptions options;
  std::string actor_class;
  std::string job_id;
  std::unique_ptr<ActorDirectory> directory;
  std::unique_ptr<DirectoryFollower> follower;  // Before the directory goes.
};

ProcessActors::ProcessActors(const std::string& head_target, const RpcSecurity& security, std::string name,
                             std::string output_dir, std::shared_ptr<Transport> transport)
    : channel_(MakeChannel(head_target, security)),
      stub_(v1::Head::NewStub(channel_)),
      name_(std::move(name)),
      output_dir_(std::move(output_dir)),
      transport_(std::move(transport)) {}

ProcessActors::~ProcessActors() {
  std::map<std::string, std::shared_ptr<Entry>> entries;
  {
    MutexLock lock(mutex_);
    entries.swap(entries_);
  }
  for (auto& [name, entry] : entries) {
    if (entry != nullptr && !entry->options.detached) (void)Cancel(entry->job_id, kStopGrace);
  }
}

absl::StatusOr<ActorAddress> ProcessActors::Spawn(const std::string& actor_class, std::string arguments,
                                                  const SpawnOptions& options) {
  auto entry = std::make_shared<Entry>();
  entry->options = options;
  entry->actor_class = actor_class;
  std::string& name = entry->options.name;
  {
    MutexLock lock(mutex_);
    if (name.empty()) name = actor_class + "-p" + std::to_string(++unnamed_);
    if (!entries_.emplace(name, nullptr).second) {
      return absl::AlreadyExistsError("there is an actor named '" + name + "' in a process of its own");
    }
  }
  auto forget = [this, &name] {
    MutexLock lock(mutex_);
    entries_.erase(name);
  };
  v1::SubmitJobRequest request;
  request.set_request_id(RandomHex(16));
  request.mutable_spec()->set_name(name_);
  request.mutable_spec()->set_output_dir(output_dir_ + "/" + name);
  *request.mutable_spec()->add_roles() = RoleOf(actor_class, std::move(arguments), entry->options);
  v1::SubmitJobResponse response;
  grpc::ClientContext context;
  SetTimeout(context, kRequestTimeout);
  absl::Status submitted = FromGrpc(stub_->SubmitJob(&context, request, &response));
  if (!submitted.ok()) {
    forget();
    return Annotate(submitted, "actor " + name + " (" + actor_class + ")");
  }
  entry->job_id = response.job_id();
  // Every process of an embedded program's own cluster is on this node; of a cluster's, the agent decides by endpoint.
  entry->directory =
      std::make_unique<ActorDirectory>(JobId(entry->job_id), "", transport_,
                                       [transport = transport_](const ActorLife& life, const v1::ExitCause& cause) {
                                         transport->MarkDead(life, cause);
                                       });
  entry->follower = std::make_unique<DirectoryFollower>(channel_, JobId(entry->job_id), *entry->directory);
  absl::StatusOr<ActorAddress> address = AwaitReady(*entry);
  if (!address.ok()) {
    (void)Cancel(entry->job_id, kStopGrace);
    forget();
    return Annotate(address.status(), "actor " + name + " (" + actor_class + ")");
  }
  MutexLock lock(mutex_);
  entries_[name] = entry;
  return address;
}

absl::StatusOr<ActorAddress> ProcessActors::AwaitReady(Entry& entry) {
  Monotonic deadline = MonotonicNow() + kStartTimeout;
  absl::Status last;
  while (MonotonicNow() < deadline) {
    absl::StatusOr<DirectoryEntry> ready = entry.directory->WaitFor(entry.options.name, 0, MonotonicNow() + kStartPoll);
    if (ready.ok()) return ready->address;
    last = ready.status();
    v1::GetJobRequest request;
    request.set_job_id(entry.job_id);
    grpc::ClientContext context;
    SetTimeout(context, kRequestTimeout);
    v1::Job job;
    if (!FromGrpc(stub_->GetJob(&context, request, &job)).ok() || !HasEnded(job.state())) continue;
    return absl::FailedPreconditionError("it did not start: " + job.reason());
  }
  return last;
}

absl::Status ProcessActors::Cancel(const std::string& job_id, absl::Duration grace) {
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  request.set_grace_ms(std::max<int64_t>(absl::ToInt64Milliseconds(grace), 1));
  grpc::ClientContext context;
  SetTimeout(context, grace + kRequestTimeout);
  v1::Job job;
  return FromGrpc(stub_->CancelJob(&context, request, &job));
}

ActorInfo ProcessActors::InfoOf(const Entry& entry) {
  ActorInfo info;
  info.actor_class = entry.actor_class;
  info.labels = entry.options.labels;
  if (std::optional<DirectoryEntry> known = entry.directory->Find(entry.options.name, 0); known.has_value()) {
    info.address = known->address;
    info.restarts = known->restarts;
    info.alive = known->ready();
    info.reason = known->reason;
  }
  return info;
}

absl::StatusOr<ActorInfo> ProcessActors::Find(const std::string& name) const {
  MutexLock lock(mutex_);
  auto found = entries_.find(name);
  if (found == entries_.end() || found->second == nullptr) {
    return absl::NotFoundError("there is no actor named '" + name + "' in a process of its own");
  }
  std::optional<DirectoryEntry> known = found->second->directory->Find(name, 0);
  if (known.has_value() && known->state == v1::ACTOR_DEAD) {
    return absl::NotFoundError(known->life().ToString() + " has ended for good: " + known->last_exit.text());
  }
  return InfoOf(*found->second);
}

std::vector<ActorInfo> ProcessActors::List() const {
  MutexLock lock(mutex_);
  std::vector<ActorInfo> list;
  for (const auto& [name, entry] : entries_) {
    if (entry != nullptr) list.push_back(InfoOf(*entry));
  }
  return list;
}

bool ProcessActors::Owns(const ActorLife& life) const {
  MutexLock lock(mutex_);
  auto found = entries_.find(life.path.role);
  return found != entries_.end() && found->second != nullptr && found->second->job_id == life.path.job.value();
}

absl::Status ProcessActors::Stop(const ActorLife& life, const std::string&, absl::Duration grace) {
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(mutex_);
    auto found = entries_.find(life.path.role);
    if (found == entries_.end() || found->second == nullptr) return absl::OkStatus();
    entry = found->second;
  }
  absl::StatusOr<ActorInfo> info = Find(life.path.role);
  if (info.ok() && info->address.life.incarnation > life.incarnation) return absl::OkStatus();  // A successor stays.
  TROUPE_RETURN_IF_ERROR(Cancel(entry->job_id, grace));
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::STOPPED);
  cause.set_text("it was stopped");
  transport_->MarkDead(life, cause);  // The head's news of it may come later.
  MutexLock lock(mutex_);
  entries_.erase(life.path.role);
  return absl::OkStatus();
}

}  // namespace troupe
