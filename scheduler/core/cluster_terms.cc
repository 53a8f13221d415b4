// SPDX-License-Identifier: Apache-2.0
// Cluster: the terms on which a job runs: its queue, its limits, its retries, what it runs after.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/status.h"
#include "scheduler/core/cluster.h"
#include "scheduler/core/job_names.h"

namespace troupe::scheduler {
namespace {

constexpr int32_t kPriorityMax = 1'000;
constexpr int kDependenciesMax = 100;
constexpr int32_t kRetriesMax = 1'000;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status CheckNumber(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Bad(absl::StrCat(name, " is ", value, ": it must be between ", min, " and ", max));
}

absl::Status CheckQueue(const v1::Queue& queue) {
  TROUPE_RETURN_IF_ERROR(CheckName(queue.name()));
  if (!std::isfinite(queue.weight()) || queue.weight() < 0 || queue.weight() > kQueueWeightMax) {
    return Bad(absl::StrCat("weight is ", queue.weight(), ": it must be between 0 and ", kQueueWeightMax));
  }
  const v1::Resources& quota = queue.quota();
  TROUPE_RETURN_IF_ERROR(Annotate(CheckResources(quota), "quota"));
  if (!quota.device_kind().empty() || quota.device_memory_bytes() != 0 || quota.custom_size() > 0) {
    return Bad("quota: a queue is limited in cpus, memory and devices of any kind only");
  }
  return CheckNumber("jobs_max", queue.jobs_max(), 0, kReplicasMax);
}

}  // namespace

absl::Status Cluster::AdmitToQueue(const v1::JobSpec& spec) {
  TROUPE_RETURN_IF_ERROR(CheckNumber("priority", spec.priority(), -kPriorityMax, kPriorityMax));
  TROUPE_RETURN_IF_ERROR(CheckNumber("max_retries", spec.max_retries(), 0, kRetriesMax));
  TROUPE_RETURN_IF_ERROR(CheckDuration("time_limit_ms", spec.time_limit_ms()));
  TROUPE_RETURN_IF_ERROR(CheckDuration("expected_ms", spec.expected_ms()));
  if (spec.time_limit_ms() > 0 && spec.expected_ms() > spec.time_limit_ms()) {
    return Bad(absl::StrCat("expected_ms is ", spec.expected_ms(), ", beyond time_limit_ms, ", spec.time_limit_ms()));
  }
  TROUPE_RETURN_IF_ERROR(CheckNumber("the number of jobs that it runs after", spec.after_size(), 0, kDependenciesMax));
  for (const v1::JobDependency& dependency : spec.after()) {
    if (state_.FindJob(JobId(dependency.job_id())) != nullptr) continue;
    std::vector<std::string> ids;
    for (const auto& [id, job] : state_.jobs()) ids.push_back(id.value());
    return Annotate(NoSuchJob(dependency.job_id(), ids), "after");
  }
  const std::string name = spec.queue().empty() ? kDefaultQueue : spec.queue();
  auto queue = state_.queues().find(name);
  if (queue == state_.queues().end()) {
    std::string known;
    for (const auto& [other, limits] : state_.queues()) absl::StrAppend(&known, known.empty() ? "" : ", ", other);
    return absl::NotFoundError(absl::StrCat("there is no queue '", name, "'; there are: ", known));
  }
  const std::string over = OverQuota(queue->second, {}, UseOf(LeastSlotsOf(spec)));
  if (over.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("it can never run: ", over));
}

// A job that failed is tried again as long as its terms allow; what is wrong with its input would only fail again.
void Cluster::FailOrRetry(const JobRecord& job, const std::string& reason, int error_code,
                          const v1::FinishJobRequest* finish) {
  const bool again = job.phase == v1::StoredJob::PLACED && job.retries < job.spec().max_retries() &&
                     !IsWrongInput(static_cast<absl::StatusCode>(error_code));
  if (!again) return EndJob(job, v1::JOB_FAILED, reason, finish, error_code);
  const int64_t backoff = kRetryBackoffInitialMs << std::min(job.retries, 20);
  v1::Record record;
  v1::JobRequeueing& requeueing = *record.mutable_job_requeueing();
  requeueing.set_job_id(job.id.value());
  requeueing.set_reason(
      absl::StrCat("attempt ", job.retries + 1, " of ", job.spec().max_retries() + 1, " failed: ", reason));
  requeueing.set_failed(true);
  requeueing.set_earliest_at_ms(ClusterMs() + std::min(backoff, kRetryBackoffMsMax));
  Log(job, "retrying", requeueing.reason());
  Commit(std::move(record));
  dirty_.insert(job.id);
  job_views_.insert(job.id);
}

// "" while it has time left.
std::string Cluster::OverTimeLimit(const JobRecord& job) const {
  const int64_t limit = job.spec().time_limit_ms();
  if (limit == 0 || job.placed_at_ms == 0 || ClusterMs() < job.placed_at_ms + limit) return "";
  return absl::StrCat("its time limit of ", absl::FormatDuration(absl::Milliseconds(limit)), " was reached");
}

// At the limit a controller is asked to checkpoint and stop, within the grace of a stop.
bool Cluster::EndAtTimeLimit(const JobRecord& job) {
  const int64_t limit = job.spec().time_limit_ms();
  if (limit == 0 || Later(job.placed_at_ms + limit, job.id)) return false;
  const std::string reason = OverTimeLimit(job);
  if (job.has_controller()) {
    if (!job.stop_requested() || job.stop.requeue()) {
      v1::Record record;
      record.mutable_job_stop_requested()->set_job_id(job.id.value());
      Commit(std::move(record));
      Log(job, "stop_requested", absl::StrCat(reason, ": the controller was asked to checkpoint and stop"));
      job_views_.insert(job.id);
    }
    const int64_t grace = job.spec().stop_grace_ms() > 0 ? job.spec().stop_grace_ms() : options_.stop_grace_ms;
    if (Later(job.placed_at_ms + limit + grace, job.id)) return false;
  }
  EndJob(job, v1::JOB_FAILED, reason, nullptr, static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  return true;
}

void Cluster::NoticeEnd(const JobRecord& job) {
  ended_jobs_.insert({job.ended_at_ms, job.id});
  auto waiting = dependents_.find(job.id);
  if (waiting != dependents_.end()) dirty_.insert(waiting->second.begin(), waiting->second.end());
}

// A job that waits has still to see how this one ended.
bool Cluster::IsNeeded(const JobId& ended) const {
  auto waiting = dependents_.find(ended);
  if (waiting == dependents_.end()) return false;
  return std::any_of(waiting->second.begin(), waiting->second.end(), [this](const JobId& id) {
    const JobRecord* job = state_.FindJob(id);
    return job != nullptr && job->phase == v1::StoredJob::WAITING && !job->placed_once;
  });
}

void Cluster::On(const SetQueue& event) {
  if (absl::Status status = CheckQueue(event.queue); !status.ok()) {
    return Reply(event.call, Annotate(status, absl::StrCat("queue '", event.queue.name(), "'")));
  }
  if (!state_.queues().contains(event.queue.name()) && state_.queues().size() >= kQueuesMax) {
    return Reply(event.call, absl::ResourceExhaustedError(absl::StrCat("there are ", kQueuesMax, " queues already")));
  }
  v1::Record record;
  v1::Queue& queue = *record.mutable_queue_set()->mutable_queue();
  queue = event.queue;
  queue.clear_used();
  queue.clear_waiting();
  queue.clear_running();
  Commit(std::move(record));
  place_again_ = true;
  Act(Answer{event.call, absl::OkStatus(), {}, {QueueView(state_.queues().at(event.queue.name()))}, nullptr});
}

void Cluster::On(const ListQueues& event) {
  Answer answer{event.call, absl::OkStatus(), {}, {}, nullptr};
  for (const auto& [name, queue] : state_.queues()) answer.queues.push_back(QueueView(queue));
  Act(std::move(answer));
}

v1::Queue Cluster::QueueView(const v1::Queue& queue) const {
  v1::Queue view = queue;
  const QueueUse& use = state_.UseOfQueue(queue.name());
  Amount used;
  used.milli_cpus = use.milli_cpus;
  used.memory_bytes = use.memory_bytes;
  used.devices = static_cast<int32_t>((use.device_shares + kSharesPerDevice - 1) / kSharesPerDevice);
  *view.mutable_used() = used.ToProto();
  view.set_running(static_cast<int32_t>(use.jobs));
  for (const auto& [id, job] : state_.jobs()) {
    if (job.phase == v1::StoredJob::WAITING && job.queue() == queue.name()) view.set_waiting(view.waiting() + 1);
  }
  return view;
}

}  // namespace troupe::scheduler
