// SPDX-License-Identifier: Apache-2.0
// Cluster: the scheduler. It decides where jobs run, starts and stops their workers, restarts those that die, notices
// lost nodes and brings every job to an end. A state machine without IO, clock, threads or randomness (DESIGN.md).
//
//   Cluster cluster(options, recovered state);
//   StepResult result = cluster.Step(StartTerm{}, now);   // then events as they come, Tick at NextWake()
//
// Step changes durable state only through ClusterState::Apply, by the records that it returns. The driver makes the
// records of a step durable as one batch, in the order of the steps, before any action of that step leaves (StepResult
// says which need not wait); it may run Step ahead of the disk. When a batch cannot be made durable the driver ends the
// process: recovery starts anew.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/core/cluster_state.h"
#include "scheduler/core/events.h"
#include "scheduler/core/node_liveness.h"
#include "scheduler/core/queue_order.h"
#include "scheduler/core/reservation.h"

namespace troupe::scheduler {

inline constexpr uint32_t kNodeProtocolVersion = 2;
// A job that lost a part and cannot be made whole keeps the rest for so long (its node may only be starting anew), then
// it gives way to jobs that wait.
inline constexpr int64_t kHalfLostPatienceMs = 60'000;
inline constexpr int64_t kDrainMsDefault = 10 * 60 * 1000;
// A device on which workers of so many jobs failed within the window, and each of them on no other, is in quarantine.
inline constexpr int kBlamesMax = 3;
inline constexpr int64_t kBlameWindowMs = 10 * 60 * 1000;
// Doubled with each time in a row; a device that held out for the longest one afterwards begins anew.
inline constexpr int64_t kQuarantineInitialMs = 60 * 1000;
inline constexpr int64_t kQuarantineMsMax = 60 * 60 * 1000;
// The longest that a job may take to reach a safe point before it is sent back as it is.
inline constexpr int64_t kRequeueGraceMsMax = 60 * 60 * 1000;
// Ended jobs that others wait for are not forgotten; so many of the oldest are passed over in one step.
inline constexpr size_t kNeededJobsLookedAtMax = 100;
inline constexpr size_t kTransitionsKeptMax = 32;  // Of one job.
// What costs a look at all nodes and found nothing is not tried again for so long.
inline constexpr int64_t kSearchAgainMs = 1'000;
// A job that failed is tried again after this, doubled up to the other.
inline constexpr int64_t kRetryBackoffInitialMs = 1'000;
inline constexpr int64_t kRetryBackoffMsMax = 5 * 60 * 1000;
// Waiting jobs whose reason is told anew each time when places were looked for; those behind them keep what was told.
inline constexpr size_t kReasonsToldMax = 100;
inline constexpr size_t kCancelsWaitingMax =
    1'000;  // Calls that wait for the end of one job; beyond it they are refused.

struct ClusterOptions {
  absl::Duration lease = absl::Seconds(10);
  absl::Duration heartbeat_interval = absl::Seconds(1);
  absl::Duration head_loss_grace = absl::Hours(24);
  int64_t stop_grace_ms = 30'000;    // Of jobs that do not say.
  int64_t hang_timeout_ms = 30'000;  // Of jobs that do not say.
  // Bounds of the state. Ended jobs are kept for people; live ones are what memory and the log are sized for.
  size_t ended_jobs_max = 1'000;
  size_t active_jobs_max = 10'000;
  size_t ended_nodes_max = 1'000;
  int64_t ended_job_age_ms_max = int64_t{30} * 24 * 60 * 60 * 1000;
  // How long a preempted job may take to reach a safe point.
  int64_t preempt_grace_ms = 5 * 60 * 1000;
};

class Cluster {
 public:
  Cluster(ClusterOptions options, ClusterState recovered);

  StepResult Step(const Event& event, Now now);

  // A Tick is due then at the latest.
  Monotonic NextWake() const;
  const ClusterState& state() const { return state_; }
  uint64_t term() const { return state_.term(); }

  // Of what is kept beside the state to decide quickly, what does not follow from the state; "" when all does. Looks at
  // everything: for tests.
  std::string StaleIndex();

 private:
  // Soft state of a node with a living incarnation: rebuilt by its registration.
  struct NodeSoft {
    SessionId session = 0;    // 0: not connected.
    bool registered = false;  // In this term.
    v1::RegisterNode info;    // Without inventory.
    Amount total;
    std::shared_ptr<const NodeFacts> facts;
    NodeLease lease;
    bool suspect = false;
    std::set<ActorLife> unknown;             // Told to end; their exits are awaited before anything is granted.
    std::map<int, int64_t> failed_since_ms;  // By device that failed; cluster time.
    bool usable() const { return registered && session != 0 && unknown.empty() && !suspect; }
  };
  struct WorkerSoft {
    bool ready = false;
    int64_t pid = 0;
    std::string endpoint;
    std::string remote_endpoint;
    bool stop_sent = false;
    std::string reason;  // Why it is where it is.
    int64_t since_unix_ms = 0;
  };
  struct JobSoft {
    std::optional<v1::JobProgress> progress;
    std::string reason;          // Why it waits.
    int64_t grace_ms = 0;        // Of a cancel; 0: the job's.
    int64_t lacks_since_ms = 0;  // Cluster time since when it lacks slots; 0: it does not.
    std::string demand;          // Its slots as text: jobs with equal ones fit or wait alike. "" until it is looked at.
    QueueUse use;                // With `demand`: what it will hold.
    std::deque<v1::Transition> transitions;          // The last ones, for people; all are in the job's events.jsonl.
    int64_t preempt_at_ms = 0;                       // Who might give way to it is not looked for again before.
    bool ran = false;                                // All of it was up since it was placed.
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;  // As last published, and since when.
    int64_t since_unix_ms = 0;
    std::vector<CallId> cancels;  // Answered when it has ended.
  };

  // Events (cluster_jobs.cc).
  void On(const StartTerm&);
  void On(const Tick&) { CheckLeases(); }
  void On(const SubmitJob& event);
  void On(const CancelJob& event);
  void On(const StopJob& event);
  void On(const FinishJob& event);
  void On(const ReportProgress& event);
  void On(const SetQueue& event);
  void On(const ListQueues& event);
  void On(const ExplainJob& event);
  absl::Status AdmitToQueue(const v1::JobSpec& spec);
  void FailOrRetry(const JobRecord& job, const std::string& reason, int error_code,
                   const v1::FinishJobRequest* finish = nullptr);
  std::string OverTimeLimit(const JobRecord& job) const;
  bool EndAtTimeLimit(const JobRecord& job);
  void NoticeEnd(const JobRecord& job);
  bool IsNeeded(const JobId& ended) const;
  v1::Queue QueueView(const v1::Queue& queue) const;
  std::vector<std::string> DetailsOf(const JobRecord& job);
  size_t PlaceInOrder(const JobId& id);
  absl::Status Admit(const v1::JobSpec& spec);
  absl::Status CheckController(const v1::ActorIncarnation& controller) const;
  v1::SubmitJobResponse DryRun(const v1::JobSpec& spec);
  v1::SubmitJobResponse Submitted(const JobRecord& job);
  const JobRecord* FindOrAnswer(CallId call, const std::string& job_id);
  void EndJob(const JobRecord& job, v1::JobState state, const std::string& reason,
              const v1::FinishJobRequest* finish = nullptr, int error_code = 0);

  // Groups and the number of replicas (cluster_groups.cc).
  void On(const ScaleJob& event);
  absl::Status CheckScale(const JobRecord& job, const v1::ScaleJobRequest& request) const;
  bool CanDoWithout(const JobRecord& job, const ReplicaKey& key) const;
  void RestartGang(const JobRecord& job, const std::string& name, const std::string& reason);
  bool MayGrantOn(const PlacedSlot& slot) const;
  bool MayStart(const JobRecord& job, const Group& gang);
  std::set<std::string> RolesThatWait(const JobRecord& job);
  void GrowJobs();
  bool PlaceSlots(const JobRecord& job, const std::vector<size_t>& numbers, const char* event, std::string* why_not);

  // Nodes that are drained (cluster_drain.cc).
  void On(const DrainNode& event);
  void On(const UndrainNode& event);
  void DecideDrain(const NodeId& id, int64_t deadline_at_ms, const std::string& reason);
  void WatchNode(const NodeId& id);
  void RememberMoves(const JobRecord& job);
  // It is usable and may get something new.
  bool TakesWork(const NodeId& id) const;
  std::string LeaveReason(const PlacedSlot& slot) const;
  int64_t LeaveBy(const PlacedSlot& slot) const;
  void MoveAway();
  void MoveJob(const JobRecord& job, const NodeId& from);
  const Group* GangOf(const JobRecord& job, size_t slot) const;
  bool NeedsCheckpoint(const JobRecord& job, const std::vector<size_t>& slots) const;
  void MoveWhole(const JobRecord& job, const std::string& reason, int64_t deadline_ms);
  bool FitsElsewhere(const JobRecord& job, const std::vector<size_t>& slots);
  void MoveSlot(const JobRecord& job, size_t slot, const std::string& reason);

  // Devices that are not trusted (cluster_quarantine.cc).
  std::string Distrust(const NodeId& id, int device) const;
  bool DistrustsAny(const NodeId& id) const;
  void NoticeFailedDevices(const NodeId& id);
  void BlameDevices(const JobId& job, const PlacedSlot& place, const v1::ExitCause& cause);
  void Quarantine(const NodeId& id, int device, int64_t first_ms, const std::string& reason);

  // Events (cluster_nodes.cc).
  void On(const FromNode& event);
  void Hear(SessionId stream, const v1::AgentToHead& message, Monotonic received);
  void On(const SessionClosed& event);
  void Register(SessionId session, const v1::RegisterNode& message, Monotonic received);
  absl::Status CheckRegistration(const v1::RegisterNode& message) const;
  void Welcome(const NodeId& id, const NodeSoft& node);
  void Reconcile(const NodeId& id, const v1::RegisterNode& message);
  void Adopt(const ActorLife& life, const v1::RunningWorker& worker);
  void WorkerReady(const NodeId& id, const v1::ActorAddress& address);
  void WorkerExited(const NodeId& id, SessionId session, const v1::WorkerExited& exit);
  void RecordExit(const ActorLife& life, const v1::ExitCause& cause);
  void RecordNeverStarted(const ActorLife& life);
  void EndNode(const NodeId& id, const std::string& reason);
  void CheckLeases();
  void ForgiveStall();
  void NodeBecameUsable(const NodeId& id);
  bool LivesOn(const ActorLife& life, const NodeId& id) const;

  // Devices of nodes (cluster_devices.cc).
  struct HeldDevices {  // By the members of a slot.
    const JobRecord* job = nullptr;
    size_t slot = 0;
  };
  void DeviceChanged(const NodeId& id, SessionId session, const v1::Device& device);
  // As its node has said last.
  bool DeviceFailed(const NodeId& id, int device) const;
  std::map<NodeId, std::vector<HeldDevices>> DeviceHolders(const std::set<NodeId>& nodes) const;
  void ShowDevices(const NodeRecord& record, const NodeSoft& node, const std::vector<HeldDevices>& held,
                   v1::Node& view) const;

  // What follows from the state (cluster_settle.cc).
  void Settle();
  void SettleJob(const JobId& id);
  void NoticeLack(const JobRecord& job);
  void StopWorkers(const JobRecord& job);
  void GrantWorkers(const JobRecord& job);
  void Grant(const JobRecord& job, const ReplicaKey& key, const PlacedSlot& slot);

  // Queues, reservations, preemption (cluster_queue.cc, cluster_reservation.cc).
  bool IsHeld(const JobRecord& job);
  JobSoft& DemandOf(const JobRecord& job);
  QueueOrder OrderOfWaiting();
  void PlaceWaiting();
  Holder HolderOf(const JobRecord& job) const;
  std::vector<Holder> HoldersByEnd() const;
  void OpenNodesOf(const JobRecord& job, bool open);
  bool ReservationHolds(const JobId& job) const;
  void ReserveFor(const JobRecord& job);
  void Mask(bool on);
  bool EndsBeforeReservation(const JobRecord& job) const;
  bool TryPlaceBehindReservation(const JobRecord& job, bool tell);
  void Preempt(const std::vector<JobId>& blocked);
  bool PreemptFor(const JobRecord& job, const std::vector<std::tuple<int32_t, int64_t, const JobRecord*>>& preemptible);
  bool TryPlace(const JobRecord& job, bool tell);
  void Wait(const JobRecord& job, const std::string& reason);
  // The job gives up its places, now or when its controller has checkpointed (at most `grace_ms` later), and waits in
  // its queue. Jobs that stop anyway are left alone.
  void Requeue(const JobRecord& job, const std::string& reason);
  void RequeueAfterCheckpoint(const JobRecord& job, const std::string& reason, int64_t grace_ms);
  bool Later(int64_t at_ms, const JobId& id);
  void NodeChanged(const NodeId& id);
  void RefreshFree();
  bool SendBackHalfLost(const std::vector<JobId>& half_lost, const std::vector<NodeCapacity>& nodes);
  void SendBackForWaiting(const std::vector<JobId>& blocked, const std::vector<JobId>& half_lost,
                          const std::vector<NodeCapacity>& nodes);
  bool SendBackFor(const JobId& wanting, const std::vector<JobId>& given_up, const std::vector<NodeCapacity>& nodes);
  NodeCapacity FreeOn(const NodeId& id, const NodeSoft& node) const;
  static NodeCapacity CapacityOf(const NodeId& id, const NodeSoft& node, const NodeRecord* used);
  void ForgetOldJobs();
  void ForgetOldNodes();

  // What readers see (cluster_views.cc).
  void Publish();
  v1::Job JobView(const JobRecord& job) const;
  v1::Actor ActorView(const JobRecord& job, const ReplicaKey& key) const;
  v1::Node NodeView(const NodeId& id, const std::vector<HeldDevices>& held) const;
  v1::JobState StateOf(const JobRecord& job) const;
  bool AllUp(const JobRecord& job) const;
  void NoticeState(const JobRecord& job);

  // Records and actions.
  void Commit(v1::Record record);
  bool Decides(const v1::Record& record) const;
  void SetApartObserved();
  template <typename T>
  void Act(T action) {
    result_.actions.emplace_back(std::move(action));
  }
  void Send(SessionId session, v1::HeadToAgent message) { Act(SendToNode{session, std::move(message)}); }
  void Log(const JobRecord& job, const std::string& event, const std::string& reason, const std::string& actor = "",
           const NodeId& node = NodeId());
  void LogNode(const std::string& event, const NodeId& node, const std::string& reason);
  void Reply(CallId call, absl::Status status) { Act(Answer{call, std::move(status), {}}); }
  void Touch(const ActorPath& path);  // Its view changed.
  WorkerSoft& Soft(const ActorPath& path, const std::string& reason);
  int64_t ClusterMs() const;
  Monotonic TimeOf(int64_t cluster_ms) const;

  const ClusterOptions options_;
  ClusterState state_;

  std::map<NodeId, NodeSoft> nodes_;
  std::map<SessionId, NodeId> sessions_;
  std::map<ActorPath, WorkerSoft> workers_;
  std::map<JobId, JobSoft> jobs_;
  std::set<JobId> waiting_;          // Lack slots, and may be placed.
  std::set<JobId> growing_;          // Whole, and with slots that want a place.
  std::map<NodeId, bool> draining_;  // And whether it is empty.
  std::set<NodeId> distrusted_;      // With devices that failed or are in quarantine.
  struct Blame {
    std::set<std::pair<NodeId, int>> devices;  // That its worker held.
    int64_t at_ms = 0;
    bool elsewhere = false;  // It failed on others, too: its own fault.
  };
  std::map<JobId, Blame> blames_;                // Jobs whose workers failed lately on devices.
  std::set<std::pair<JobId, size_t>> moving_;    // Slots that left a place and have no other one yet.
  std::map<JobId, std::set<JobId>> dependents_;  // Waiting jobs, by a job that they wait for.
  std::set<JobId> gave_way_;                     // Waiting jobs for which others were preempted.
  std::optional<Reservation> reservation_;       // Of the first job that does not fit.
  struct {
    JobId job;
    int64_t until_ms = 0;
  } no_place_ever_;      // Not even when all others have ended: not looked for again before.
  bool masked_ = false;  // free_ leaves out what is reserved; only within a pass.
  std::set<std::pair<int64_t, NodeId>> node_timers_;  // The same for nodes.
  std::set<std::pair<int64_t, JobId>> timers_;        // Cluster time at which a job must be settled again.
  std::set<std::pair<int64_t, JobId>> ended_jobs_;    // By the cluster time of their end.
  FreeCapacity free_;                                 // Of usable nodes.
  std::set<NodeId> stale_nodes_;                      // Those that free_ may be wrong about.
  FreeCapacity empty_;                                // Of registered nodes, as if nothing were taken.
  Monotonic lease_wake_ = Monotonic::Infinite();      // The judgement on no node's lease changes before.
  Monotonic term_start_;
  int64_t term_base_ms_ = 0;
  Monotonic last_step_;

  // Of the step in progress.
  Now now_;
  StepResult result_;
  std::set<JobId> dirty_;
  bool place_again_ = false;
  std::vector<std::pair<CallId, JobId>> submitted_;  // Answered when the step has settled.
  std::set<JobId> job_views_;
  std::map<JobId, std::set<ReplicaKey>> actor_views_;
  std::set<NodeId> node_views_;
};

}  // namespace troupe::scheduler
