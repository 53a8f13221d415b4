// SPDX-License-Identifier: Apache-2.0
// Cluster: what is kept for a gang that does not fit yet, what may run before it all the same (backfill), and which
// jobs give way to one of higher priority (preemption).
#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "scheduler/core/cluster.h"
#include "scheduler/core/job_names.h"

namespace troupe::scheduler {
namespace {

int64_t ExpectedMs(const v1::JobSpec& spec) {
  return spec.expected_ms() > 0 ? spec.expected_ms() : spec.time_limit_ms();
}

}  // namespace

Holder Cluster::HolderOf(const JobRecord& job) const {
  Holder holder;
  holder.job = job.id;
  for (size_t i = 0; i < job.slots.size(); ++i) {
    const PlacedSlot& placed = job.placed[i];
    if (placed.placed()) holder.held.push_back({placed.node, job.slots[i].need, placed.devices});
  }
  return holder;
}

// Who holds places, in the order in which they are expected to end; those that end anyway first.
std::vector<Holder> Cluster::HoldersByEnd() const {
  std::vector<std::pair<uint64_t, Holder>> holders;
  for (const auto& [id, job] : state_.jobs()) {
    if (job.placed_at_ms == 0) continue;
    Holder holder = HolderOf(job);
    const int64_t expected = ExpectedMs(job.spec());
    if (job.stopping() || job.stop_requested()) {
      holder.end_ms = ClusterMs();
    } else if (expected > 0) {
      holder.end_ms = std::max(job.placed_at_ms + expected, ClusterMs());
    }
    holders.emplace_back(job.submitted.order(), std::move(holder));
  }
  std::sort(holders.begin(), holders.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.end_ms, a.first) < std::tie(b.second.end_ms, b.first);
  });
  std::vector<Holder> sorted;
  for (auto& [order, holder] : holders) sorted.push_back(std::move(holder));
  return sorted;
}

// What was reserved holds as long as one of those that it waits for does, and its nodes are there.
bool Cluster::ReservationHolds(const JobId& job) const {
  if (!reservation_ || reservation_->job != job) return false;
  for (const auto& [id, held] : reservation_->places) {
    if (!TakesWork(id)) return false;
  }
  return std::any_of(reservation_->waits_for.begin(), reservation_->waits_for.end(), [this](const JobId& id) {
    const JobRecord* holder = state_.FindJob(id);
    return holder != nullptr && holder->placed_at_ms != 0;
  });
}

void Cluster::ReserveFor(const JobRecord& job) {
  const bool vain = no_place_ever_.job == job.id && ClusterMs() < no_place_ever_.until_ms;
  if (!ReservationHolds(job.id) && !vain) {
    reservation_ = Reserve(job.id, job.Demand(true), free_.All(), HoldersByEnd());
    if (reservation_) {
      Log(job, "reserved",
          absl::StrCat("places on ", Count(reservation_->places.size(), "node"), " are kept for it; it waits for ",
                       Count(reservation_->waits_for.size(), "job"), " to end"));
    } else {
      no_place_ever_ = {job.id, ClusterMs() + kSearchAgainMs};
    }
  }
  Mask(true);
}

// With the mask on, nodes of the reservation show only what its job will not need.
void Cluster::Mask(bool on) {
  if (masked_ == on || !reservation_) return;
  masked_ = on;
  for (const auto& [id, held] : reservation_->places) {
    auto node = nodes_.find(id);
    if (!TakesWork(id)) continue;
    const NodeRecord& record = *state_.FindNode(id);
    NodeCapacity now = FreeOn(id, node->second);
    if (!on) {
      free_.Set(std::move(now));
      continue;
    }
    NodeCapacity later = CapacityOf(id, node->second, nullptr);
    for (const Holder::Held& place : held) AddHeld(place, later);
    for (const JobId& job_id : record.jobs) {
      if (reservation_->waits_for.contains(job_id)) continue;
      const JobRecord& job = *state_.FindJob(job_id);
      for (size_t i = 0; i < job.slots.size(); ++i) {
        if (job.placed[i].node == id) AddHeld({id, job.slots[i].need, job.placed[i].devices}, later);
      }
    }
    free_.Set(Both(now, later));
  }
}

bool Cluster::EndsBeforeReservation(const JobRecord& job) const {
  const int64_t expected = ExpectedMs(job.spec());
  return masked_ && expected > 0 && reservation_->start_ms != kNever &&
         ClusterMs() + expected <= reservation_->start_ms;
}

bool Cluster::TryPlaceBehindReservation(const JobRecord& job, bool tell) {
  if (!masked_) return TryPlace(job, tell);
  const bool ends_before = EndsBeforeReservation(job);
  if (!ends_before && TryPlace(job, false)) return true;
  if (!ends_before && !tell) return false;
  Mask(false);
  bool placed = false;
  if (ends_before) {
    placed = TryPlace(job, tell);
    if (placed) reservation_->waits_for.insert(job.id);
  } else if (job.phase == v1::StoredJob::WAITING &&
             Place(job.Demand(true), free_).verdict == PlacementVerdict::kPlaced) {
    Wait(job, absl::StrCat("would fit, but job ", reservation_->job.value(), " comes first: places on ",
                           Count(reservation_->places.size(), "node"), " are kept for it"));
  } else {
    placed = TryPlace(job, tell);
  }
  Mask(true);
  return placed;
}

// The first blocked job that outranks enough preemptible ones gets their places when they have checkpointed. One
// decision at a time: the places of jobs that stop already count as free.
void Cluster::Preempt(const std::vector<JobId>& blocked) {
  if (blocked.empty()) return;
  std::vector<std::tuple<int32_t, int64_t, const JobRecord*>> preemptible;  // Lowest priority first, then the youngest.
  for (const auto& [id, job] : state_.jobs()) {
    if (!job.spec().preemptible() || job.phase != v1::StoredJob::PLACED || job.stop_requested()) continue;
    preemptible.emplace_back(job.spec().priority(), -job.placed_at_ms, &job);
  }
  if (preemptible.empty()) return;
  std::sort(preemptible.begin(), preemptible.end(), [](const auto& a, const auto& b) {
    return std::tuple(std::get<0>(a), std::get<1>(a), std::get<2>(a)->submitted.order()) <
           std::tuple(std::get<0>(b), std::get<1>(b), std::get<2>(b)->submitted.order());
  });
  for (const JobId& id : blocked) {
    const JobRecord& job = *state_.FindJob(id);
    if (job.spec().priority() <= std::get<0>(preemptible.front())) continue;
    JobSoft& soft = jobs_[id];
    if (Later(soft.preempt_at_ms, id)) continue;
    soft.preempt_at_ms = ClusterMs() + kSearchAgainMs;
    if (PreemptFor(job, preemptible)) return;
  }
}

bool Cluster::PreemptFor(const JobRecord& job,
                         const std::vector<std::tuple<int32_t, int64_t, const JobRecord*>>& preemptible) {
  std::map<JobId, Holder> holders;
  for (Holder& holder : HoldersByEnd()) holders.emplace(holder.job, std::move(holder));
  FreeCapacity soon(free_.All());
  for (const auto& [id, other] : state_.jobs()) {
    if (other.placed_at_ms != 0 && (other.stopping() || other.stop_requested())) GiveBackAll(holders.at(id), soon);
  }
  std::vector<Holder> candidates;
  for (const auto& [priority, age, victim] : preemptible) {
    if (priority < job.spec().priority()) candidates.push_back(std::move(holders.at(victim->id)));
  }
  const std::vector<JobId> victims = ChooseVictims(job.Demand(true), soon.All(), candidates);
  if (victims.empty()) return false;
  gave_way_.insert(job.id);
  reservation_.reset();  // It waits for others now.
  for (const JobId& id : victims) {
    RequeueAfterCheckpoint(*state_.FindJob(id),
                           absl::StrCat("preempted by job ", job.id.value(), " of priority ", job.spec().priority()),
                           options_.preempt_grace_ms);
  }
  Wait(job, absl::StrCat("waits for ", Count(victims.size(), "job"),
                         " of lower priority to give way: ", victims[0].value(), victims.size() > 1 ? ", ..." : ""));
  return true;
}

}  // namespace troupe::scheduler
