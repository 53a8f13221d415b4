// SPDX-License-Identifier: Apache-2.0
// Cluster: what users and controllers ask for.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "scheduler/core/cluster.h"
#include "scheduler/core/job_names.h"

namespace troupe::scheduler {
namespace {

constexpr char kNoNodeYet[] = "no node has joined yet";

std::vector<std::string> IdsOf(const std::map<JobId, JobRecord>& jobs) {
  std::vector<std::string> ids;
  for (const auto& [id, job] : jobs) ids.push_back(id.value());
  return ids;
}

void AddLines(const std::vector<Slot>& slots, size_t slot, const std::string& node, const std::string& reason,
              v1::SubmitJobResponse& response) {
  for (const ReplicaKey& member : slots[slot].members) {
    v1::PlacementLine* line = response.add_placements();
    line->mutable_actor()->set_role(member.role);
    line->mutable_actor()->set_replica(member.replica);
    line->set_node_id(node);
    line->set_reason(reason);
  }
}

std::string DevicesText(const Slot& slot, const std::vector<int>& devices) {
  std::string text = absl::StrCat(slot.need.ToString(), slot.members.size() > 1 ? ", taking turns" : "");
  for (size_t i = 0; i < devices.size(); ++i) absl::StrAppend(&text, i == 0 ? "; device " : ", ", devices[i]);
  return text;
}

}  // namespace

void Cluster::On(const StartTerm&) {
  term_start_ = now_.monotonic;
  term_base_ms_ = std::max<int64_t>(state_.at_ms(), 1);  // 0 means never.
  v1::Record record;
  record.mutable_term_started()->set_term(state_.term() + 1);
  Commit(std::move(record));
  for (const auto& [id, node] : state_.nodes()) {
    node_views_.insert(id);
    WatchNode(id);
    // Its agent dials again; the lease is doubled, since it may still be backing off.
    if (!node.ended) nodes_[id].lease = NodeLease(options_.lease, now_.monotonic + options_.lease);
    lease_wake_ = now_.monotonic;
  }
  for (const auto& [id, job] : state_.jobs()) {
    JobSoft& soft = jobs_[id];
    soft.ran = job.phase == v1::StoredJob::PLACED &&
               std::all_of(job.replicas.begin(), job.replicas.end(),
                           [](const auto& r) { return r.second.live || r.second.over(); });
    for (const v1::JobDependency& dependency : job.spec().after()) {
      if (!job.placed_once) dependents_[JobId(dependency.job_id())].insert(id);
    }
    job_views_.insert(id);
    RememberMoves(job);
    for (const auto& [key, replica] : job.replicas) {
      Soft({id, key.role, key.replica}, replica.live ? "its node has not registered since the head started" : "");
    }
    if (job.ended()) {
      ended_jobs_.insert({job.ended_at_ms, id});
    } else {
      dirty_.insert(id);
    }
  }
}

void Cluster::On(const SubmitJob& event) {
  const v1::SubmitJobRequest& request = event.request;
  if (const JobRecord* job = request.request_id().empty() ? nullptr : state_.FindRequest(request.request_id());
      job != nullptr && !request.dry_run()) {
    submitted_.emplace_back(event.call, job->id);
    return;
  }
  if (absl::Status status = Admit(request.spec()); !status.ok()) return Reply(event.call, status);
  if (request.dry_run()) return Act(Answer{event.call, absl::OkStatus(), DryRun(request.spec())});
  if (state_.jobs().size() - ended_jobs_.size() >= options_.active_jobs_max) {
    return Reply(event.call, absl::ResourceExhaustedError(absl::StrCat("there are ", options_.active_jobs_max,
                                                                       " jobs already: cancel some or wait")));
  }
  v1::Record record;
  v1::JobSubmitted& submitted = *record.mutable_job_submitted();
  submitted.set_job_id(MakeJobId(request.spec().name(), event.entropy,
                                 [this](const std::string& id) { return state_.FindJob(JobId(id)) != nullptr; }));
  *submitted.mutable_spec() = request.spec();
  submitted.set_request_id(request.request_id());
  submitted.set_submitted_unix_ms(now_.unix_ms);
  submitted.set_order(state_.last_order() + 1);
  JobId id(submitted.job_id());
  Commit(std::move(record));
  const JobRecord& job = *state_.FindJob(id);
  Log(job, "submitted", absl::StrCat(job.slots.size(), " places for ", job.replicas.size(), " workers"));
  for (const auto& [key, replica] : job.replicas) Soft({id, key.role, key.replica}, "");
  jobs_[id].reason = kNoNodeYet;
  for (const v1::JobDependency& dependency : job.spec().after()) dependents_[JobId(dependency.job_id())].insert(id);
  dirty_.insert(id);
  job_views_.insert(id);
  submitted_.emplace_back(event.call, id);
}

absl::Status Cluster::Admit(const v1::JobSpec& spec) {
  TROUPE_RETURN_IF_ERROR(Annotate(CheckJobSpec(spec), absl::StrCat("job '", spec.name(), "'")));
  TROUPE_RETURN_IF_ERROR(Annotate(AdmitToQueue(spec), absl::StrCat("job '", spec.name(), "'")));
  if (empty_.size() < nodes_.size()) return absl::OkStatus();  // What a node has that has not registered is not known.
  if (empty_.empty()) return absl::OkStatus();
  PlacementResult result = Place(LeastSlotsOf(spec), empty_);
  if (result.verdict != PlacementVerdict::kImpossible) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job '", spec.name(), "' can never fit on the nodes there are: ", result.reason));
}

v1::SubmitJobResponse Cluster::DryRun(const v1::JobSpec& spec) {
  std::vector<Slot> slots = LeastSlotsOf(spec);
  RefreshFree();
  PlacementResult result = Place(slots, free_);
  v1::SubmitJobResponse response;
  if (nodes_.empty()) result.reason = kNoNodeYet;
  if (result.verdict != PlacementVerdict::kPlaced) response.set_reason(absl::StrCat("it would wait: ", result.reason));
  for (const SlotPlacement& p : result.placements) {
    size_t slot = static_cast<size_t>(p.slot);
    AddLines(slots, slot, p.node.value(), DevicesText(slots[slot], p.devices), response);
  }
  return response;
}

v1::SubmitJobResponse Cluster::Submitted(const JobRecord& job) {
  v1::SubmitJobResponse response;
  response.set_job_id(job.id.value());
  if (job.phase == v1::StoredJob::WAITING) response.set_reason(jobs_[job.id].reason);
  for (size_t i = 0; i < job.placed.size(); ++i) {
    if (!job.placed[i].placed()) continue;
    AddLines(job.slots, i, job.placed[i].node.value(), DevicesText(job.slots[i], job.placed[i].devices), response);
  }
  for (v1::PlacementLine& line : *response.mutable_placements()) line.mutable_actor()->set_job_id(job.id.value());
  return response;
}

const JobRecord* Cluster::FindOrAnswer(CallId call, const std::string& job_id) {
  const JobRecord* job = state_.FindJob(JobId(job_id));
  if (job == nullptr) Reply(call, NoSuchJob(job_id, IdsOf(state_.jobs())));
  return job;
}

void Cluster::On(const CancelJob& event) {
  const JobRecord* job = FindOrAnswer(event.call, event.request.job_id());
  if (job == nullptr) return;
  JobSoft& soft = jobs_[job->id];
  int64_t grace = event.request.grace_ms();
  if (grace > 0 && !job->ended()) {
    soft.grace_ms = soft.grace_ms == 0 ? grace : std::min(soft.grace_ms, grace);
    // A shorter grace reaches workers that stop already.
    for (const auto& [key, replica] : job->replicas) workers_[{job->id, key.role, key.replica}].stop_sent = false;
  }
  if (job->ended()) return Reply(event.call, absl::OkStatus());
  if (job->phase != v1::StoredJob::ENDING) EndJob(*job, v1::JOB_CANCELLED, "cancelled");
  dirty_.insert(job->id);
  if (soft.cancels.size() >= kCancelsWaitingMax) {
    return Reply(event.call, absl::ResourceExhaustedError(
                                 absl::StrCat("'", job->id.value(), "' is being cancelled, and ", kCancelsWaitingMax,
                                              " callers wait for its end already: ask for its state instead")));
  }
  soft.cancels.push_back(event.call);
}

void Cluster::On(const StopJob& event) {
  const JobRecord* job = FindOrAnswer(event.call, event.job_id);
  if (job == nullptr) return;
  bool asked = (job->stop_requested() && !job->stop.requeue()) || job->phase == v1::StoredJob::ENDING || job->ended();
  if (!asked && (job->phase != v1::StoredJob::PLACED || !job->has_controller())) {
    EndJob(*job, v1::JOB_CANCELLED, "stopped while it waited for its place");
  } else if (!asked) {
    v1::Record record;
    record.mutable_job_stop_requested()->set_job_id(job->id.value());
    Commit(std::move(record));
    Log(*job, "stop_requested", "the controller was asked to checkpoint and stop");
    job_views_.insert(job->id);
  }
  Reply(event.call, absl::OkStatus());
}

absl::Status Cluster::CheckController(const v1::ActorIncarnation& controller) const {
  ActorLife life = ActorLife::FromProto(controller);
  const JobRecord* job = state_.FindJob(life.path.job);
  if (job == nullptr) return NoSuchJob(life.path.job.value(), IdsOf(state_.jobs()));
  const Replica* replica = state_.FindReplica(life.path);
  if (life.path.role != "controller" || replica == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(life.ToString(), " is no controller of a job"));
  }
  if (!replica->live || replica->incarnation != life.incarnation) {
    return absl::AbortedError(absl::StrCat("stale epoch: ", life.ToString(),
                                           " is not the living controller; incarnation ", replica->incarnation,
                                           replica->live ? " lives" : " was the last"));
  }
  return absl::OkStatus();
}

void Cluster::On(const FinishJob& event) {
  const v1::FinishJobRequest& request = event.request;
  const JobRecord* job = state_.FindJob(JobId(request.controller().id().job_id()));
  bool repeated = job != nullptr && job->ending.finished_by() != 0 &&
                  job->ending.finished_by() == request.controller().incarnation();
  if (repeated) return Reply(event.call, absl::OkStatus());
  if (absl::Status status = CheckController(request.controller()); !status.ok()) return Reply(event.call, status);
  bool goes_back = request.interrupted() && (job->stop.requeue() || job->phase == v1::StoredJob::REQUEUEING);
  if (goes_back && job->phase == v1::StoredJob::PLACED) {
    Requeue(*job, job->stop.reason());
  } else if (!goes_back && job->phase != v1::StoredJob::ENDING) {
    const std::string over = OverTimeLimit(*job);
    if (request.interrupted() && !over.empty()) {
      EndJob(*job, v1::JOB_FAILED, absl::StrCat(over, "; it stopped at a safe point"), &request);
    } else if (request.interrupted() || request.succeeded()) {
      EndJob(*job, request.interrupted() ? v1::JOB_CANCELLED : v1::JOB_SUCCEEDED, request.reason(), &request);
    } else {
      FailOrRetry(*job, request.reason(), request.error_code(), &request);
    }
  }
  Reply(event.call, absl::OkStatus());
}

void Cluster::EndJob(const JobRecord& job, v1::JobState state, const std::string& reason,
                     const v1::FinishJobRequest* finish, int error_code) {
  v1::Record record;
  v1::JobEnding& ending = *record.mutable_job_ending();
  ending.set_job_id(job.id.value());
  ending.set_end_state(state);
  ending.set_reason(reason);
  if (finish != nullptr) {
    ending.set_summary_json(finish->summary_json());
    ending.set_interrupted(finish->interrupted());
    ending.set_finished_by(finish->controller().incarnation());
    error_code = finish->error_code();
  }
  if (state == v1::JOB_FAILED) ending.set_error_code(error_code);
  Commit(std::move(record));
  Log(job, "ending", absl::StrCat(v1::JobState_Name(state), reason.empty() ? "" : ": ", reason));
  dirty_.insert(job.id);
  job_views_.insert(job.id);
}

void Cluster::On(const ReportProgress& event) {
  absl::Status status = CheckController(event.request.controller());
  if (status.ok()) {
    JobId id(event.request.controller().id().job_id());
    jobs_[id].progress = event.request.progress();
    job_views_.insert(id);
  }
  Reply(event.call, status);
}

}  // namespace troupe::scheduler
