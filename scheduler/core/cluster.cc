// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/cluster.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace troupe::scheduler {

Cluster::Cluster(ClusterOptions options, ClusterState recovered)
    : options_(std::move(options)), state_(std::move(recovered)) {}

StepResult Cluster::Step(const Event& event, Now now) {
  result_ = {};
  now_ = now;
  if (last_step_ == Monotonic()) last_step_ = now.monotonic;
  ForgiveStall();
  last_step_ = now.monotonic;
  std::visit([this](const auto& e) { On(e); }, event);
  Settle();
  for (const auto& [call, id] : submitted_) Act(Answer{call, absl::OkStatus(), Submitted(*state_.FindJob(id))});
  submitted_.clear();
  // First what readers see: who gets an answer, or is started, finds it there.
  auto others = static_cast<std::ptrdiff_t>(result_.actions.size());
  Publish();
  std::rotate(result_.actions.begin(), result_.actions.begin() + others, result_.actions.end());
  SetApartObserved();
  return std::move(result_);
}

// False for what follows from decisions made before and from what is observed again after a crash.
bool Cluster::Decides(const v1::Record& record) const {
  if (record.has_job_ended() || record.has_job_forgotten() || record.has_node_forgotten()) return false;
  if (!record.has_worker_exit_recorded()) return true;
  const JobRecord* job = state_.FindJob(JobId(record.worker_exit_recorded().actor().id().job_id()));
  return job != nullptr && job->phase != v1::StoredJob::ENDING && !job->ended();
}

// What a node is told waits for all records: an exit is acknowledged when it is recorded (ACK-1).
void Cluster::SetApartObserved() {
  result_.decides = std::any_of(result_.records.begin(), result_.records.end(),
                                [this](const v1::Record& record) { return Decides(record); });
  if (result_.decides) return;
  auto sent = std::stable_partition(result_.actions.begin(), result_.actions.end(), [](const Action& action) {
    return !std::holds_alternative<SendToNode>(action) && !std::holds_alternative<CloseSession>(action);
  });
  result_.observed.assign(std::move_iterator(result_.actions.begin()), std::move_iterator(sent));
  result_.actions.erase(result_.actions.begin(), sent);
}

Monotonic Cluster::NextWake() const {
  Monotonic wake = Monotonic::Infinite();
  if (!nodes_.empty()) wake = std::min(wake, lease_wake_);
  // So that a stall of the head is told from silence of the nodes.
  if (!nodes_.empty()) wake = std::min(wake, last_step_ + options_.lease / 4);
  if (!node_timers_.empty()) wake = std::min(wake, TimeOf(node_timers_.begin()->first));
  if (!timers_.empty()) wake = std::min(wake, TimeOf(timers_.begin()->first));
  // Older ones are kept for others.
  auto ages = ended_jobs_.lower_bound({ClusterMs() - options_.ended_job_age_ms_max + 1, JobId()});
  if (ages != ended_jobs_.end()) wake = std::min(wake, TimeOf(ages->first + options_.ended_job_age_ms_max));
  return wake;
}

Monotonic Cluster::TimeOf(int64_t cluster_ms) const {
  return term_start_ + absl::Milliseconds(cluster_ms - term_base_ms_);
}

int64_t Cluster::ClusterMs() const { return term_base_ms_ + absl::ToInt64Milliseconds(now_.monotonic - term_start_); }

void Cluster::Commit(v1::Record record) {
  record.set_at_ms(ClusterMs());
  if (record.has_job_ended() || record.has_job_requeued()) {
    const std::string& id = record.has_job_ended() ? record.job_ended().job_id() : record.job_requeued().job_id();
    for (const PlacedSlot& slot : state_.FindJob(JobId(id))->placed) {
      if (slot.placed()) NodeChanged(slot.node);
    }
  }
  state_.Apply(record);
  result_.records.push_back(std::move(record));
}

void Cluster::Log(const JobRecord& job, const std::string& event, const std::string& reason, const std::string& actor,
                  const NodeId& node) {
  std::deque<v1::Transition>& kept = jobs_[job.id].transitions;
  if (kept.size() >= kTransitionsKeptMax) kept.pop_front();
  v1::Transition& transition = kept.emplace_back();
  transition.set_unix_ms(now_.unix_ms);
  transition.set_event(event);
  transition.set_actor(actor);
  transition.set_node_id(node.value());
  transition.set_reason(reason);
  Act(WriteEvent{job.id.value(), job.spec().output_dir(), now_.unix_ms, event, actor, node.value(), reason});
}

void Cluster::Touch(const ActorPath& path) { actor_views_[path.job].insert({path.role, path.replica}); }

Cluster::WorkerSoft& Cluster::Soft(const ActorPath& path, const std::string& reason) {
  WorkerSoft& worker = workers_[path];
  worker.reason = reason;
  worker.since_unix_ms = now_.unix_ms;
  Touch(path);
  return worker;
}

}  // namespace troupe::scheduler
