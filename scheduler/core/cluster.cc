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
  return std::move(result_);
}

Monotonic Cluster::NextWake() const {
  Monotonic wake = Monotonic::Infinite();
  for (const auto& [id, node] : nodes_) wake = std::min(wake, node.lease.NextChange(last_step_));
  // So that a stall of the head is told from silence of the nodes.
  if (!nodes_.empty()) wake = std::min(wake, last_step_ + options_.lease / 4);
  if (!timers_.empty()) {
    wake = std::min(wake, term_start_ + absl::Milliseconds(timers_.begin()->first - term_base_ms_));
  }
  return wake;
}

int64_t Cluster::ClusterMs() const { return term_base_ms_ + absl::ToInt64Milliseconds(now_.monotonic - term_start_); }

void Cluster::Commit(v1::Record record) {
  record.set_at_ms(ClusterMs());
  state_.Apply(record);
  result_.records.push_back(std::move(record));
}

void Cluster::Log(const JobRecord& job, const std::string& event, const std::string& reason, const std::string& actor,
                  const NodeId& node) {
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
