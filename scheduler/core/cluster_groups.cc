// SPDX-License-Identifier: Apache-2.0
// Cluster: replicas that start together, and how many of them there are.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/core/cluster.h"

namespace troupe::scheduler {
namespace {

std::string NoSuchRole(const JobRecord& job, const std::string& role) {
  std::string text = absl::StrCat("job '", job.id.value(), "' has no role '", role, "': it has");
  for (const v1::RoleSpec& known : job.spec().roles()) absl::StrAppend(&text, " ", known.role());
  return text;
}

}  // namespace

absl::Status Cluster::CheckScale(const JobRecord& job, const v1::ScaleJobRequest& request) const {
  if (!job.wanted.contains(request.role())) return absl::InvalidArgumentError(NoSuchRole(job, request.role()));
  const v1::RoleSpec& role = job.role(request.role());
  const std::string what = absl::StrCat("role '", request.role(), "' of job '", job.id.value(), "' ");
  if (job.phase == v1::StoredJob::ENDING || job.ended()) {
    return absl::FailedPreconditionError(absl::StrCat("job '", job.id.value(), "' ends or has ended"));
  }
  if (role.role() == "controller") return absl::FailedPreconditionError(absl::StrCat(what, "is one: a job has one"));
  if (PolicyOf(role) == v1::ALL_FOR_ONE) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, "is a gang of fixed size (all_for_one): submit the job anew with the other size"));
  }
  if (!role.colocation_group().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, "takes turns with others in '", role.colocation_group(),
                     "', replica by replica: it has no number of its own (placement: disaggregated gives it one)"));
  }
  if (const int wanted = job.wanted.at(request.role()); role.grow_only() && request.replicas() < wanted) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, "has ", wanted, " replicas, which hold what others still read: it can only grow"));
  }
  const ReplicaBounds bounds = BoundsOf(role);
  if (request.replicas() < bounds.min || request.replicas() > bounds.max) {
    return absl::InvalidArgumentError(absl::StrCat(what, "cannot have ", request.replicas(), " replicas: at least ",
                                                   bounds.min, " (min_replicas), at most ", bounds.max,
                                                   " (max_replicas)"));
  }
  int64_t all = request.replicas();
  for (const auto& [name, wanted] : job.wanted) all += name == request.role() ? 0 : wanted;
  if (all <= kReplicasMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("job '", job.id.value(), "' would have ", all, " replicas in all: at most ", kReplicasMax));
}

void Cluster::On(const ScaleJob& event) {
  const v1::ScaleJobRequest& request = event.request;
  const JobRecord* job = FindOrAnswer(event.call, request.job_id());
  if (job == nullptr) return;
  if (absl::Status status = CheckScale(*job, request); !status.ok()) return Reply(event.call, status);
  const int before = job->wanted.at(request.role());
  auto given_up = [&](const auto& entry) {
    return entry.first.role == request.role() && entry.first.replica < request.replicas() && entry.second.given_up;
  };
  const bool again = std::any_of(job->replicas.begin(), job->replicas.end(), given_up);
  if (before == request.replicas() && !again) return Reply(event.call, absl::OkStatus());
  v1::Record record;
  v1::RoleScaled& scaled = *record.mutable_role_scaled();
  scaled.set_job_id(request.job_id());
  scaled.set_role(request.role());
  scaled.set_replicas(request.replicas());
  scaled.set_reason(absl::StrCat("scaled from ", before, " to ", request.replicas()));
  const std::string reason = scaled.reason();
  for (const auto& [key, replica] : job->replicas) {
    const PlacedSlot& slot = job->placed[replica.slot];
    if (key.role == request.role() && key.replica >= request.replicas() && slot.placed()) NodeChanged(slot.node);
  }
  Commit(std::move(record));
  Log(*job, "scaled", reason, request.role());
  for (const auto& [key, replica] : job->replicas) {
    if (key.role != request.role()) continue;
    if (!workers_.contains({job->id, key.role, key.replica})) Soft({job->id, key.role, key.replica}, "");
    Touch({job->id, key.role, key.replica});
  }
  JobSoft& soft = jobs_[job->id];
  soft.demand.clear();
  place_again_ = true;
  dirty_.insert(job->id);
  job_views_.insert(job->id);
  Reply(event.call, absl::OkStatus());
}

// A replica that failed for good is done without as long as enough others can run.
bool Cluster::CanDoWithout(const JobRecord& job, const ReplicaKey& key) const {
  const v1::RoleSpec& role = job.role(key.role);
  if (PolicyOf(role) != v1::ELASTIC) return false;
  int others = 0;
  for (const auto& [other, replica] : job.replicas) {
    others += other.role == key.role && other != key && (replica.done || !replica.over());
  }
  return others >= BoundsOf(role).min;
}

void Cluster::RestartGang(const JobRecord& job, const std::string& name, const std::string& reason) {
  v1::Record record;
  v1::GroupRestarting& restarting = *record.mutable_group_restarting();
  restarting.set_job_id(job.id.value());
  restarting.set_group(name);
  restarting.set_generation(job.groups.at(name).generation + 1);
  restarting.set_reason(
      absl::StrCat("group '", name, "' starts anew as generation ", restarting.generation(), ": ", reason));
  const std::string text = restarting.reason();
  Commit(std::move(record));
  Log(job, "group_restarting", text);
  dirty_.insert(job.id);
}

// Whether workers may be started there now.
bool Cluster::MayGrantOn(const PlacedSlot& slot) const {
  if (!slot.placed() || !slot.leaving.empty()) return false;
  if (!TakesWork(slot.node)) return false;
  return std::all_of(slot.devices.begin(), slot.devices.end(),
                     [&](int device) { return Distrust(slot.node, device).empty(); });
}

// A gang is granted together: when the last member of the generation before has exited and all of it can start.
bool Cluster::MayStart(const JobRecord& job, const Group& gang) {
  bool may = true;
  for (const std::string& role : gang.roles) {
    for (auto it = job.replicas.lower_bound({role, 0}); it != job.replicas.end() && it->first.role == role; ++it) {
      const Replica& replica = it->second;
      if (replica.live) {
        may = may && replica.generation == gang.generation;
      } else if (!replica.over()) {
        const bool later = Later(replica.restart_at_ms, job.id);
        may = may && !later && MayGrantOn(job.placed[replica.slot]);
      }
    }
  }
  return may;
}

std::set<std::string> Cluster::RolesThatWait(const JobRecord& job) {
  std::set<std::string> roles;
  for (const auto& [name, group] : job.groups) {
    if (group.policy == v1::ALL_FOR_ONE && !MayStart(job, group)) roles.insert(group.roles.begin(), group.roles.end());
  }
  return roles;
}

// What a job has been doing without, one by one: after all that waits, so that it delays nothing.
void Cluster::GrowJobs() {
  for (const JobId& id : growing_) {
    const JobRecord& job = *state_.FindJob(id);
    if (job.phase != v1::StoredJob::PLACED || job.stop_requested()) continue;
    const Amount* in_vain = nullptr;
    for (size_t slot : job.Growing()) {
      const Amount& need = job.slots[slot].need;
      if (in_vain != nullptr && need == *in_vain) continue;
      QueueUse more;
      more.Add(need, 1);
      if (!OverQuota(state_.queues().at(job.queue()), state_.UseOfQueue(job.queue()), more).empty()) break;
      if (PlaceSlots(job, {slot}, "grown", nullptr)) {
        dirty_.insert(id);
      } else {
        in_vain = &need;
      }
    }
  }
}

}  // namespace troupe::scheduler
