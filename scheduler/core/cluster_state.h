// SPDX-License-Identifier: Apache-2.0
// ClusterState: the durable part of what the scheduler knows, and Apply, the only thing that changes it. Step applies
// its records here as it makes them; recovery applies the same records from the store. No clock, no IO, no decisions.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "scheduler/core/groups.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/queue_order.h"
#include "scheduler/core/slots.h"
#include "troupe/v1/store.pb.h"

namespace troupe::scheduler {

using JobPhase = v1::StoredJob::Phase;

struct Replica {
  uint64_t incarnation = 0;  // Of the last grant; 0: never granted.
  bool live = false;         // Granted, and its exit is not recorded.
  bool done = false;
  bool given_up = false;    // Its elastic role does without it.
  bool retired = false;     // Its role has fewer replicas now.
  size_t slot = 0;          // Its number.
  uint64_t generation = 0;  // Of its all_for_one group at the last grant.
  NodeId node;              // Of the last grant.
  uint64_t node_incarnation = 0;
  v1::ExitCause last_exit;  // kind unspecified: none yet.
  int64_t restart_at_ms = 0;
  std::vector<int64_t> failure_ms;
  int64_t out_of_memory_ms = 0;

  // It is not started again.
  bool over() const { return done || given_up || retired; }
  int restarts() const { return incarnation == 0 ? 0 : static_cast<int>(incarnation) - 1; }
};

struct PlacedSlot {
  NodeId node;  // Empty: it has none.
  uint64_t node_incarnation = 0;
  std::vector<int> devices;
  std::string leaving;    // Why it is given up as soon as none of its workers lives; "" it is not.
  bool optional = false;  // Added by ScaleJob and not placed yet: the job is whole without it.
  bool placed() const { return !node.empty(); }
};

struct JobRecord {
  JobId id;
  v1::JobSubmitted submitted;
  JobPhase phase = v1::StoredJob::WAITING;
  v1::JobStopRequested stop;  // The last request, without job_id unless there is one.
  v1::JobEnding ending;       // From phase ENDING on.
  int64_t ended_unix_ms = 0;
  int64_t placed_at_ms = 0;        // Cluster time since when it holds places; 0: it does not.
  int64_t ended_at_ms = 0;         // Cluster time; 0: it has not.
  int64_t earliest_at_ms = 0;      // It is not placed before.
  int retries = 0;                 // Attempts that failed.
  bool placed_once = false;        // What it was to run after counts no more.
  std::vector<Slot> slots;         // SlotsOf(spec)
  std::vector<PlacedSlot> placed;  // By slot.
  std::map<ReplicaKey, Replica> replicas;
  std::map<std::string, Group> groups;
  std::map<std::string, int> wanted;  // Replicas, by role.
  size_t slots_at_start = 0;          // SlotsOf(spec); those behind were added.
  int live = 0;                       // Replicas that are live.
  std::string requeue_reason;         // Soft: why it was sent back; for people.

  const v1::JobSpec& spec() const { return submitted.spec(); }
  const std::string& queue() const;  // The default one by its name.
  bool has_controller() const;
  bool ended() const { return phase == v1::StoredJob::ENDED; }
  bool stop_requested() const { return !stop.job_id().empty(); }
  // Its workers are to be stopped.
  bool stopping() const { return phase == v1::StoredJob::ENDING || phase == v1::StoredJob::REQUEUEING; }
  // A member of the slot has work left.
  bool unfinished(size_t slot) const;
  // It has, and no node.
  bool wants_place(size_t slot) const;
  // The slots that must get a place so that the job is whole, by number: all that want one, but for those that were
  // added and those of an elastic role beyond its least number. `anew`: as if it held nothing.
  std::vector<size_t> Lacking(bool anew) const;
  std::vector<Slot> Demand(bool anew) const;
  // Those that have a node; they refer to this job.
  std::vector<KeptSlot> Kept() const;
  // Slots that want a place and that the job does without.
  std::vector<size_t> Growing() const;
  // Placed once, but some slots must get a place again.
  bool lacks_slots() const;
  // Every worker has done its work, or the job does without it.
  bool all_done() const;
  // The all_for_one group of a role; nullptr: it is of another kind.
  const Group* gang(const std::string& role) const;
  // Why a live replica is stopped although its job goes on; "" it is not.
  std::string StopReason(const ReplicaKey& key, const Replica& replica) const;
  const v1::RoleSpec& role(const std::string& name) const;
  bool any_live(size_t slot) const;
};

// A device that gets nothing new for a while.
struct DeviceQuarantine {
  int64_t until_ms = 0;  // Cluster time.
  int times = 0;         // In a row.
  std::string reason;
};

struct NodeRecord {
  uint64_t incarnation = 0;
  bool ended = false;
  std::string end_reason;
  // Of its id, over incarnations.
  int64_t drain_deadline_ms = 0;  // Cluster time; 0: it is not drained.
  std::string drain_reason;
  std::map<int, DeviceQuarantine> quarantined;  // By device, also past ones.
  // What placed slots hold, by device number where devices are concerned.
  int64_t used_milli_cpus = 0;
  int64_t used_memory_bytes = 0;
  std::map<int, int32_t> device_used;
  std::map<int, int64_t> device_memory_used;   // Of shares.
  std::map<std::string, int64_t> custom_used;  // Thousandths.
  std::set<JobId> jobs;                        // That hold a slot on it.
  JobId alone;                                 // The one that wants no other beside it; "" none.

  // `sign`: 1 takes, -1 gives back.
  void Use(const Amount& need, const std::vector<int>& devices, int sign);

  bool draining() const { return drain_deadline_ms != 0; }
  // Why a device gets nothing new at that cluster time; "" it does.
  std::string Distrust(int device, int64_t at_ms) const;
  // Nothing lies on it any more, and it lives or not.
  void Clear(uint64_t new_incarnation);
};

class ClusterState {
 public:
  // Requires: the record follows from this state (a broken log is a bug or corruption: TROUPE_CHECK with the id of the
  // invariant). Unknown record kinds are refused the same way.
  void Apply(const v1::Record& record);

  v1::ClusterSnapshot ToSnapshot() const;
  static ClusterState FromSnapshot(const v1::ClusterSnapshot& snapshot);

  uint64_t term() const { return term_; }
  int64_t at_ms() const { return at_ms_; }  // The largest at_ms applied.
  uint64_t last_order() const { return last_order_; }
  uint64_t last_node_incarnation() const { return last_node_incarnation_; }
  const std::map<JobId, JobRecord>& jobs() const { return jobs_; }
  const std::map<NodeId, NodeRecord>& nodes() const { return nodes_; }
  const JobRecord* FindJob(const JobId& id) const;
  const NodeRecord* FindNode(const NodeId& id) const;
  // By name; the default one is always there.
  const std::map<std::string, v1::Queue>& queues() const { return queues_; }
  // What its jobs hold (QUEUE-1).
  const QueueUse& UseOfQueue(const std::string& name) const;
  const Replica* FindReplica(const ActorPath& path) const;
  // The job of a request id; nullptr when none.
  const JobRecord* FindRequest(const std::string& request_id) const;

 private:
  void ApplySubmitted(const v1::JobSubmitted& record);
  void ApplyPlaced(const v1::JobPlaced& record, int64_t at_ms);
  void ApplyGranted(const v1::WorkerGranted& record, int64_t at_ms);
  void ApplyExit(const v1::WorkerExitRecorded& record, int64_t at_ms);
  void ApplyNodeGranted(const v1::NodeGranted& record);
  void ApplyNodeEnded(const v1::NodeEnded& record);
  void ApplyEnding(const v1::JobEnding& record);
  void ApplyRequeueing(const v1::JobRequeueing& record);
  void ApplyRequeued(JobRecord& job);
  // cluster_state_groups.cc
  void ApplyScaled(const v1::RoleScaled& record);
  void ApplyGroupRestarting(const v1::GroupRestarting& record);
  void ApplyMoving(const v1::ReplicaMoving& record);
  void ApplyDrained(const v1::NodeDrained& record);
  void ApplyQuarantined(const v1::DeviceQuarantined& record);
  static void AddSlot(JobRecord& job, const ReplicaKey& key);
  static void RestoreGroups(const v1::StoredJob& stored, JobRecord& job);
  void Leave(JobRecord& job, size_t slot, const std::string& reason);
  void GiveUpSlot(JobRecord& job, size_t slot);
  void CheckPlace(const NodeId& node, const std::vector<int>& devices, int64_t at_ms) const;
  void Place(JobRecord& job, const v1::SlotPlaced& slot);
  void ReleaseSlot(JobRecord& job, size_t slot);
  void ReleaseSlots(JobRecord& job);
  static void Leave(const JobId& job, NodeRecord& node);
  JobRecord& Job(const std::string& id);

  uint64_t term_ = 0;
  int64_t at_ms_ = 0;
  uint64_t last_order_ = 0;
  uint64_t last_node_incarnation_ = 0;
  std::map<JobId, JobRecord> jobs_;
  std::map<NodeId, NodeRecord> nodes_;
  std::map<std::string, JobId> requests_;
  std::map<std::string, v1::Queue> queues_ = {{kDefaultQueue, DefaultQueue()}};
  std::map<std::string, QueueUse> queue_use_;
};

}  // namespace troupe::scheduler
