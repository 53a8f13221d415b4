// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/view_board.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "scheduler/core/job_names.h"

namespace troupe::scheduler {
namespace {

constexpr int kPageSizeDefault = 100;
constexpr int kPageSizeMax = 1000;

}  // namespace

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_SUCCEEDED || state == v1::JOB_FAILED || state == v1::JOB_CANCELLED;
}

void ViewBoard::Publish(const PublishJob& change) {
  Watchers watchers;
  {
    MutexLock lock(mutex_);
    if (change.job == nullptr) {
      if (auto it = jobs_.find(change.job_id); it != jobs_.end()) {
        if (it->second.job != nullptr) order_.erase(it->second.order);
        jobs_.erase(it);
      }
    } else {
      JobEntry& entry = jobs_[change.job_id];
      entry.job = change.job;
      entry.changed = ++changes_;
      entry.order = change.job->order();
      order_[entry.order] = change.job_id;
    }
    watchers = WatchersOf(change.job_id);
  }
  for (const auto& changed : watchers) (*changed)();
}

void ViewBoard::Publish(const PublishActors& change) {
  Watchers watchers;
  {
    MutexLock lock(mutex_);
    JobEntry& entry = jobs_[change.job_id];
    for (const v1::Actor& actor : change.actors) {
      const v1::ActorId& id = actor.address().actor().id();
      entry.actors[{id.role(), id.replica()}] = {actor, ++changes_};
    }
    watchers = WatchersOf(change.job_id);
  }
  for (const auto& changed : watchers) (*changed)();
}

void ViewBoard::Publish(const PublishNode& change) {
  MutexLock lock(mutex_);
  if (change.node == nullptr) {
    nodes_.erase(change.node_id);
    return;
  }
  NodeEntry& entry = nodes_[change.node_id];
  entry.node = change.node;
  entry.heard = std::max(entry.heard, change.heard);
}

void ViewBoard::NodeHeard(const std::string& node_id, Monotonic at) {
  MutexLock lock(mutex_);
  if (auto it = nodes_.find(node_id); it != nodes_.end()) it->second.heard = std::max(it->second.heard, at);
}

absl::StatusOr<v1::Job> ViewBoard::GetJob(const std::string& job_id) const {
  MutexLock lock(mutex_);
  auto it = jobs_.find(job_id);
  if (it == jobs_.end() || it->second.job == nullptr) return NoSuch(job_id);
  v1::Job job = *it->second.job;
  for (const auto& [key, entry] : it->second.actors) *job.add_actors() = entry.actor;
  return job;
}

absl::StatusOr<v1::ListJobsResponse> ViewBoard::ListJobs(int page_size, const std::string& page_token) const {
  uint64_t before = UINT64_MAX;
  if (!page_token.empty()) {
    auto [end, error] = std::from_chars(page_token.data(), page_token.data() + page_token.size(), before);
    if (error != std::errc() || *end != '\0') {
      return absl::InvalidArgumentError(absl::StrCat("page_token '", page_token, "' is none that a list returned"));
    }
  }
  if (page_size <= 0) page_size = kPageSizeDefault;
  page_size = std::min(page_size, kPageSizeMax);
  v1::ListJobsResponse response;
  MutexLock lock(mutex_);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const JobEntry& entry = jobs_.at(it->second);
    if (it->first >= before) continue;
    if (response.jobs_size() == page_size) {
      response.set_next_page_token(std::to_string(before));
      break;
    }
    before = it->first;
    *response.add_jobs() = *entry.job;
    response.mutable_jobs()->rbegin()->mutable_spec()->clear_config_json();
  }
  return response;
}

absl::StatusOr<std::vector<v1::Actor>> ViewBoard::ListActors(const std::string& job_id) const {
  MutexLock lock(mutex_);
  if (!job_id.empty() && !jobs_.contains(job_id)) return NoSuch(job_id);
  std::vector<v1::Actor> actors;
  for (const auto& [id, job] : jobs_) {
    if (!job_id.empty() && id != job_id) continue;
    for (const auto& [key, entry] : job.actors) actors.push_back(entry.actor);
  }
  return actors;
}

absl::StatusOr<v1::Node> ViewBoard::GetNode(const std::string& node_id, Monotonic now) const {
  for (v1::Node& node : ListNodes(now)) {
    if (node.node_id() == node_id) return std::move(node);
  }
  return absl::NotFoundError(absl::StrCat("there is no node '", node_id, "'"));
}

absl::StatusOr<std::vector<v1::Group>> ViewBoard::ListGroups(const std::string& job_id) const {
  std::vector<v1::Group> groups;
  MutexLock lock(mutex_);
  if (!job_id.empty()) {
    auto job = jobs_.find(job_id);
    if (job == jobs_.end() || job->second.job == nullptr) return NoSuch(job_id);
    AddGroups(job->second, groups);
    return groups;
  }
  for (const auto& [order, id] : order_) {
    const JobEntry& job = jobs_.at(id);
    if (!IsTerminal(job.job->state())) AddGroups(job, groups);
  }
  return groups;
}

void ViewBoard::AddGroups(const JobEntry& job, std::vector<v1::Group>& groups) {
  for (const v1::Group& group : job.job->groups()) {
    groups.push_back(group);
    for (const auto& [key, entry] : job.actors) {
      if (std::find(group.roles().begin(), group.roles().end(), key.first) == group.roles().end()) continue;
      const v1::ActorState state = entry.actor.state();
      const bool ready = state == v1::ACTOR_READY;
      groups.back().set_ready(groups.back().ready() + ready);
      const bool live = ready || state == v1::ACTOR_STARTING || state == v1::ACTOR_STOPPING;
      groups.back().set_live(groups.back().live() + live);
    }
  }
}

std::vector<v1::Node> ViewBoard::ListNodes(Monotonic now) const {
  std::vector<v1::Node> nodes;
  MutexLock lock(mutex_);
  for (const auto& [id, entry] : nodes_) {
    nodes.push_back(*entry.node);
    if (entry.heard != Monotonic()) {
      nodes.back().set_last_heartbeat_ms_ago(std::max<int64_t>(0, absl::ToInt64Milliseconds(now - entry.heard)));
    }
  }
  return nodes;
}

absl::StatusOr<ViewBoard::Changes> ViewBoard::ChangesSince(const std::string& job_id, uint64_t* seen) const {
  MutexLock lock(mutex_);
  auto it = jobs_.find(job_id);
  if (it == jobs_.end() || it->second.job == nullptr) return NoSuch(job_id);
  Changes changes;
  for (const auto& [key, entry] : it->second.actors) {
    if (entry.changed > *seen) changes.actors.push_back(entry.actor);
  }
  if (it->second.changed > *seen || !changes.actors.empty()) changes.job = it->second.job;
  changes.over = IsTerminal(it->second.job->state());
  *seen = changes_;
  return changes;
}

void ViewBoard::Watch(const std::string& job_id, std::weak_ptr<std::function<void()>> changed) {
  MutexLock lock(mutex_);
  std::erase_if(watchers_, [](const auto& entry) { return entry.second.expired(); });
  watchers_.emplace(job_id, std::move(changed));
}

absl::Status ViewBoard::NoSuch(const std::string& job_id) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<std::string> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  return NoSuchJob(job_id, ids);
}

ViewBoard::Watchers ViewBoard::WatchersOf(const std::string& job_id) {
  Watchers watchers;
  auto [begin, end] = watchers_.equal_range(job_id);
  for (auto it = begin; it != end; ++it) {
    if (auto changed = it->second.lock()) watchers.push_back(std::move(changed));
  }
  return watchers;
}

}  // namespace troupe::scheduler
