// SPDX-License-Identifier: Apache-2.0
// Cluster: which of the jobs that wait is placed next, and which give way.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/core/cluster.h"

namespace troupe::scheduler {

// Whether a job that waits may not be placed yet, whatever is free: it waits for its next attempt or for other jobs.
// Ends it when what it waits for cannot come true any more.
bool Cluster::IsHeld(const JobRecord& job) {
  if (job.phase != v1::StoredJob::WAITING) return false;
  if (Later(job.earliest_at_ms, job.id)) {
    Wait(job, absl::StrCat("waits ", (job.earliest_at_ms - ClusterMs() + 999) / 1000, " s before attempt ",
                           job.retries + 1));
    return true;
  }
  if (job.placed_once) return false;
  for (const v1::JobDependency& dependency : job.spec().after()) {
    const JobRecord* other = state_.FindJob(JobId(dependency.job_id()));
    if (other != nullptr && !other->ended()) {
      Wait(job, absl::StrCat("waits for job ", dependency.job_id(), " to end"));
      return true;
    }
    const v1::JobState end = other == nullptr ? v1::JOB_STATE_UNSPECIFIED : other->ending.end_state();
    const v1::JobState wanted = dependency.condition() == v1::JobDependency::ENDED    ? end
                                : dependency.condition() == v1::JobDependency::FAILED ? v1::JOB_FAILED
                                                                                      : v1::JOB_SUCCEEDED;
    if (end == wanted) continue;
    EndJob(
        job, v1::JOB_CANCELLED,
        absl::StrCat("it was to run after job ", dependency.job_id(), " had ",
                     wanted == v1::JOB_FAILED ? "failed" : "succeeded", ", which ended as ", v1::JobState_Name(end)));
    return true;
  }
  return false;
}

Cluster::JobSoft& Cluster::DemandOf(const JobRecord& job) {
  JobSoft& soft = jobs_[job.id];
  if (!soft.demand.empty()) return soft;
  const std::vector<Slot> slots = job.Demand(true);
  soft.use = UseOf(slots);
  for (const Slot& slot : slots)
    absl::StrAppend(&soft.demand, slot.ToString(), ": ", slot.need.ToString(),
                    slot.rule == nullptr ? "" : ", " + slot.rule->ToString(), "\n");
  return soft;
}

QueueOrder Cluster::OrderOfWaiting() {
  QueueOrder order(empty_.Sum());
  for (const auto& [name, queue] : state_.queues()) order.AddQueue(name, queue.weight(), state_.UseOfQueue(name));
  for (const JobId& id : waiting_) {
    const JobRecord& job = *state_.FindJob(id);
    QueueOrder::Waiting::Rank rank = job.phase == v1::StoredJob::PLACED ? QueueOrder::Waiting::kLostSome
                                     : gave_way_.contains(id)           ? QueueOrder::Waiting::kOthersGaveWay
                                                                        : QueueOrder::Waiting::kWaits;
    order.Add({id, job.queue(), rank, job.spec().priority(), job.submitted.order()});
  }
  return order;
}

// Tries each waiting job in its order. The first one that does not fit gets a reservation, or others give way to it;
// those behind it take only what does not delay it.
void Cluster::PlaceWaiting() {
  RefreshFree();
  QueueOrder order = OrderOfWaiting();
  std::vector<JobId> half_lost, blocked;
  std::map<std::string, std::string> in_vain;  // Why, by demand: what did not fit once does not fit later in the pass.
  QueueOrder::Waiting next;
  while (order.Next(next)) {
    const JobRecord& job = *state_.FindJob(next.id);
    const JobSoft& soft = DemandOf(job);
    const bool lost_some = next.rank == QueueOrder::Waiting::kLostSome;
    const bool tell = soft.reason.empty() || blocked.size() < kReasonsToldMax;
    if (!lost_some) {
      const v1::Queue& queue = state_.queues().at(next.queue);
      if (std::string over = OverQuota(queue, state_.UseOfQueue(next.queue), soft.use); !over.empty()) {
        if (tell) Wait(job, over);
        continue;
      }
      if (blocked.size() == 1 && !masked_) ReserveFor(*state_.FindJob(blocked.front()));
    }
    const std::string demand = absl::StrCat(EndsBeforeReservation(job) ? "short\n" : "", soft.demand);
    if (auto same = in_vain.find(demand); !lost_some && same != in_vain.end()) {
      if (tell) Wait(job, same->second);
    } else if (TryPlaceBehindReservation(job, tell)) {
      order.Placed(next, soft.use);
      waiting_.erase(job.id);
      gave_way_.erase(job.id);
      dirty_.insert(job.id);
      continue;
    } else if (!lost_some) {
      in_vain.emplace(demand, soft.reason);
    }
    (lost_some ? half_lost : blocked).push_back(job.id);
  }
  if (half_lost.empty() && !growing_.empty()) {
    if (!blocked.empty() && !masked_) ReserveFor(*state_.FindJob(blocked.front()));
    if (blocked.empty() || masked_ || no_place_ever_.job == blocked.front()) GrowJobs();
  }
  Mask(false);
  if (blocked.empty()) reservation_.reset();
  Preempt(blocked);
  if (half_lost.empty()) return;
  for (const auto& [id, job] : state_.jobs()) {
    if (job.phase == v1::StoredJob::REQUEUEING) return;  // One decision at a time: this one may be enough.
  }
  const std::vector<NodeCapacity> nodes = free_.All();
  if (!SendBackHalfLost(half_lost, nodes)) SendBackForWaiting(blocked, half_lost, nodes);
}

// A job that lost a part may not fit again because of where its other part lies, or because another job that lost a
// part holds what it needs, and the other way round. Then jobs go back to the queue as a whole: first the
// job itself, then the youngest others, as few as help.
bool Cluster::SendBackHalfLost(const std::vector<JobId>& half_lost, const std::vector<NodeCapacity>& nodes) {
  for (const JobId& wanting : half_lost) {
    if (SendBackFor(wanting, {wanting}, nodes)) return true;
    std::vector<JobId> others;
    for (auto other = half_lost.rbegin(); other != half_lost.rend(); ++other) {
      if (*other == wanting) continue;
      others.push_back(*other);
      if (SendBackFor(wanting, others, nodes)) return true;
    }
    if (others.empty()) continue;
    others.push_back(wanting);
    if (SendBackFor(wanting, others, nodes)) return true;
  }
  return false;
}

// What is left of a job that cannot be made whole does not hold others up for ever.
void Cluster::SendBackForWaiting(const std::vector<JobId>& blocked, const std::vector<JobId>& half_lost,
                                 const std::vector<NodeCapacity>& nodes) {
  std::vector<JobId> impatient;
  for (auto id = half_lost.rbegin(); id != half_lost.rend(); ++id) {
    int64_t since = jobs_.at(*id).lacks_since_ms;
    if (since > 0 && ClusterMs() >= since + kHalfLostPatienceMs) impatient.push_back(*id);
  }
  for (const JobId& wanting : blocked) {
    for (size_t count = 1; count <= impatient.size(); ++count) {
      if (SendBackFor(wanting, {impatient.begin(), impatient.begin() + static_cast<std::ptrdiff_t>(count)}, nodes))
        return;
    }
  }
}

// Whether `wanting` fits when the jobs of `given_up` give back what they hold; then they are sent back.
bool Cluster::SendBackFor(const JobId& wanting, const std::vector<JobId>& given_up,
                          const std::vector<NodeCapacity>& nodes) {
  FreeCapacity free(nodes);
  for (const JobId& id : given_up) GiveBackAll(HolderOf(*state_.FindJob(id)), free);
  const JobRecord& job = *state_.FindJob(wanting);
  bool as_a_whole = std::find(given_up.begin(), given_up.end(), wanting) != given_up.end();
  const std::vector<KeptSlot> kept = as_a_whole ? std::vector<KeptSlot>() : job.Kept();
  if (Place(job.Demand(as_a_whole), free, kept).verdict != PlacementVerdict::kPlaced) return false;
  for (const JobId& id : given_up) {
    std::string reason =
        id == wanting ? std::string("it lost workers with a node and fits again only when all of it is placed anew")
                      : absl::StrCat("it lost workers with a node and holds what job ", wanting.value(), " needs");
    Requeue(*state_.FindJob(id), reason);
  }
  return true;
}

void Cluster::Requeue(const JobRecord& job, const std::string& reason) {
  v1::Record record;
  record.mutable_job_requeueing()->set_job_id(job.id.value());
  record.mutable_job_requeueing()->set_reason(reason);
  Commit(std::move(record));
  Log(job, "requeueing", reason);
  dirty_.insert(job.id);
  job_views_.insert(job.id);
}

void Cluster::RequeueAfterCheckpoint(const JobRecord& job, const std::string& reason, int64_t grace_ms) {
  if (job.phase != v1::StoredJob::PLACED || job.stop_requested()) return;
  if (!job.has_controller()) return Requeue(job, reason);
  v1::Record record;
  v1::JobStopRequested& stop = *record.mutable_job_stop_requested();
  stop.set_job_id(job.id.value());
  stop.set_requeue(true);
  stop.set_reason(reason);
  stop.set_deadline_at_ms(ClusterMs() + std::clamp(grace_ms, int64_t{1}, kRequeueGraceMsMax));
  Commit(std::move(record));
  Log(job, "requeue_requested", absl::StrCat("the controller was asked to checkpoint and stop: ", reason));
  dirty_.insert(job.id);
  job_views_.insert(job.id);
}

}  // namespace troupe::scheduler
