// SPDX-License-Identifier: Apache-2.0
// ViewBoard: what readers see of the cluster: every job, actor and node as of the newest durable decision. Reads never
// wait for the deciding thread. Watchers are told that something changed and take the newest state: a slow one skips
// states and holds nothing up. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "scheduler/core/events.h"

namespace troupe::scheduler {

bool IsTerminal(v1::JobState state);

class ViewBoard {
 public:
  void Publish(const PublishJob& change);
  void Publish(const PublishActors& change);
  void Publish(const PublishNode& change);
  // A heartbeat of the node arrived (shown as its age).
  void NodeHeard(const std::string& node_id, Monotonic at);

  // With actors. NOT_FOUND that names the nearest id.
  absl::StatusOr<v1::Job> GetJob(const std::string& job_id) const;
  // Newest first, without config and actors. `page_token` is what the last answer gave; INVALID_ARGUMENT else.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(int page_size, const std::string& page_token) const;
  // "" every job. NOT_FOUND as GetJob.
  absl::StatusOr<std::vector<v1::Actor>> ListActors(const std::string& job_id) const;
  std::vector<v1::Node> ListNodes(Monotonic now) const;
  // NOT_FOUND that names the nearest id.
  absl::StatusOr<v1::Node> GetNode(const std::string& node_id, Monotonic now) const;
  // "" every job that has not ended. NOT_FOUND as GetJob.
  absl::StatusOr<std::vector<v1::Group>> ListGroups(const std::string& job_id) const;

  // Each change has a number. What changed in a job after `seen`; sets `seen`. NOT_FOUND: there is none (any more).
  struct Changes {
    std::shared_ptr<const v1::Job> job;  // Set when it or one of its actors changed; without actors.
    std::vector<v1::Actor> actors;       // Those that changed.
    bool over = false;                   // The job has ended: nothing will change any more.
  };
  absl::StatusOr<Changes> ChangesSince(const std::string& job_id, uint64_t* seen) const;

  // Calls `changed` after each change of the job, on the thread that publishes; it must be quick. The last reference to
  // it ends the watch.
  void Watch(const std::string& job_id, std::weak_ptr<std::function<void()>> changed);

 private:
  struct ActorEntry {
    v1::Actor actor;
    uint64_t changed = 0;
  };
  struct JobEntry {
    std::shared_ptr<const v1::Job> job;
    uint64_t changed = 0;
    uint64_t order = 0;  // Of first publication, for lists.
    std::map<std::pair<std::string, int32_t>, ActorEntry> actors;
  };
  struct NodeEntry {
    std::shared_ptr<const v1::Node> node;
    Monotonic heard;
  };
  absl::Status NoSuch(const std::string& job_id) const;
  static void AddGroups(const JobEntry& job, std::vector<v1::Group>& groups);
  using Watchers = std::vector<std::shared_ptr<std::function<void()>>>;
  Watchers WatchersOf(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, JobEntry> jobs_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::string> order_ ABSL_GUARDED_BY(mutex_);  // By order of submission.
  std::map<std::string, NodeEntry> nodes_ ABSL_GUARDED_BY(mutex_);
  std::multimap<std::string, std::weak_ptr<std::function<void()>>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe::scheduler
