// SPDX-License-Identifier: Apache-2.0
// Cluster: why a job is where it is, for people.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "scheduler/core/cluster.h"
#include "scheduler/core/job_names.h"

namespace troupe::scheduler {
namespace {

constexpr size_t kHoldersToldMax = 5;

std::string Seconds(int64_t ms) { return absl::FormatDuration(absl::Seconds((std::max<int64_t>(ms, 0) + 999) / 1000)); }

}  // namespace

void Cluster::On(const ExplainJob& event) {
  const JobRecord* job = FindOrAnswer(event.call, event.job_id);
  if (job == nullptr) return;
  auto explanation = std::make_shared<v1::Explanation>();
  *explanation->mutable_job() = JobView(*job);
  explanation->mutable_job()->mutable_spec()->clear_config_json();
  v1::SubmitJobResponse places = Submitted(*job);
  explanation->mutable_placements()->Swap(places.mutable_placements());
  const JobSoft& soft = jobs_[job->id];
  for (const v1::Transition& transition : soft.transitions) *explanation->add_transitions() = transition;
  if (!job->ended()) {
    explanation->set_waits_for(job->phase == v1::StoredJob::WAITING || job->lacks_slots() ? soft.reason : "");
    for (std::string& detail : DetailsOf(*job)) explanation->add_details(std::move(detail));
  }
  Act(Answer{event.call, absl::OkStatus(), {}, {}, std::move(explanation)});
}

std::vector<std::string> Cluster::DetailsOf(const JobRecord& job) {
  std::vector<std::string> details;
  const bool waits = waiting_.contains(job.id);
  const v1::Queue& queue = state_.queues().at(job.queue());
  std::string place = absl::StrCat("queue '", queue.name(), "', priority ", job.spec().priority());
  if (waits) absl::StrAppend(&place, ": ", PlaceInOrder(job.id), " of ", waiting_.size(), " that wait");
  details.push_back(std::move(place));
  if (const int64_t limit = job.spec().time_limit_ms(); limit > 0 && job.placed_at_ms > 0) {
    details.push_back(absl::StrCat("its time limit leaves it ", Seconds(job.placed_at_ms + limit - ClusterMs())));
  }
  if (job.retries > 0)
    details.push_back(absl::StrCat(Count(static_cast<size_t>(job.retries), "attempt"), " before this one failed"));
  if (!waits) return details;
  if (reservation_ && reservation_->job == job.id) {
    std::string kept = absl::StrCat("places on ", Count(reservation_->places.size(), "node"), " are kept for it");
    if (reservation_->start_ms != kNever) {
      absl::StrAppend(&kept, ", from about ", Seconds(reservation_->start_ms - ClusterMs()), " from now");
    }
    details.push_back(std::move(kept));
    size_t told = 0;
    for (const JobId& id : reservation_->waits_for) {
      const JobRecord* holder = state_.FindJob(id);
      if (holder == nullptr || holder->placed_at_ms == 0) continue;
      if (++told > kHoldersToldMax) break;
      const bool stops = holder->stopping() || holder->stop_requested();
      details.push_back(absl::StrCat("job ", id.value(), stops ? ", which stops, holds" : " holds", " what it needs"));
    }
    if (told > kHoldersToldMax) details.push_back("further jobs hold what it needs");
  } else if (reservation_) {
    details.push_back(absl::StrCat("job ", reservation_->job.value(), " comes before it and has a reservation on ",
                                   Count(reservation_->places.size(), "node")));
  }
  return details;
}

// From 1.
size_t Cluster::PlaceInOrder(const JobId& id) {
  QueueOrder order = OrderOfWaiting();
  QueueOrder::Waiting next;
  size_t place = 0;
  while (order.Next(next)) {
    ++place;
    if (next.id == id) break;
    // As if each one before it were placed: queues take turns by what they hold then.
    order.Placed(next, DemandOf(*state_.FindJob(next.id)).use);
  }
  return place;
}

}  // namespace troupe::scheduler
