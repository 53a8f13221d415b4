// SPDX-License-Identifier: Apache-2.0
// What goes into the scheduler's state machine (events) and what comes out of it (actions). Plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "troupe/v1/head.pb.h"
#include "troupe/v1/node.pb.h"
#include "troupe/v1/store.pb.h"

namespace troupe::scheduler {

using CallId = uint64_t;     // Of a request that waits for an Answer; chosen by the driver.
using SessionId = uint64_t;  // Of a stream of an agent; chosen by the driver, never used again, never 0.

// Both clocks as the driver read them: decisions use the monotonic one; the other is for what people read.
struct Now {
  Monotonic monotonic;
  int64_t unix_ms = 0;
};

// ---- Events ----
struct StartTerm {};  // First after recovery; once.
struct Tick {};       // At the latest at Cluster::NextWake().
struct SubmitJob {
  CallId call = 0;
  v1::SubmitJobRequest request;
  uint64_t entropy = 0;  // For the job's id.
};
struct CancelJob {  // Answered when every process of the job has ended.
  CallId call = 0;
  v1::CancelJobRequest request;
};
struct StopJob {
  CallId call = 0;
  std::string job_id;
};
struct FinishJob {
  CallId call = 0;
  v1::FinishJobRequest request;
};
struct ReportProgress {
  CallId call = 0;
  v1::ReportProgressRequest request;
};
struct SetQueue {
  CallId call = 0;
  v1::Queue queue;
};
struct ListQueues {
  CallId call = 0;
};
struct ExplainJob {
  CallId call = 0;
  std::string job_id;
};
struct ScaleJob {
  CallId call = 0;
  v1::ScaleJobRequest request;
};
struct DrainNode {
  CallId call = 0;
  v1::DrainNodeRequest request;
};
struct UndrainNode {
  CallId call = 0;
  std::string node_id;
};
struct FromNode {
  SessionId session = 0;
  v1::AgentMessages messages;
  Monotonic received;  // When it came in: a busy driver makes no heartbeat late.
};
struct SessionClosed {
  SessionId session = 0;
};
using Event = std::variant<StartTerm, Tick, SubmitJob, CancelJob, StopJob, FinishJob, ReportProgress, SetQueue,
                           ListQueues, ExplainJob, ScaleJob, DrainNode, UndrainNode, FromNode, SessionClosed>;

// ---- Actions ----
struct Answer {
  CallId call = 0;
  absl::Status status;
  v1::SubmitJobResponse submit;                  // For SubmitJob.
  std::vector<v1::Queue> queues;                 // For SetQueue (the one) and ListQueues.
  std::shared_ptr<v1::Explanation> explanation;  // For ExplainJob.
};
struct SendToNode {
  SessionId session = 0;  // Dropped when that session has ended.
  v1::HeadToAgent message;
};
struct CloseSession {
  SessionId session = 0;
  absl::Status reason;
};
// What readers may see from now on.
struct PublishJob {
  std::string job_id;
  std::shared_ptr<const v1::Job> job;  // Without actors; nullptr: forgotten.
};
struct PublishActors {
  std::string job_id;
  std::vector<v1::Actor> actors;  // Those that changed.
};
struct PublishNode {
  std::string node_id;
  std::shared_ptr<const v1::Node> node;  // Without last_heartbeat_ms_ago; nullptr: forgotten.
  Monotonic heard;
};
// A line of a job's events.jsonl; without a job_id (and output_dir) of the head's own.
struct WriteEvent {
  std::string job_id;
  std::string output_dir;
  int64_t unix_ms = 0;
  std::string event;  // "submitted", "placed", "started", "ready", "exited", "restart", "node_lost", ...
  std::string actor;  // "rollout/0#2", "" none
  std::string node_id;
  std::string reason;
};
using Action = std::variant<Answer, SendToNode, CloseSession, PublishJob, PublishActors, PublishNode, WriteEvent>;

struct StepResult {
  std::vector<v1::Record> records;  // One batch: all or none of it becomes durable.
  // False: the records, if any, say only what was observed of decisions made before (the exits of the workers of a job
  // that ends). They need not be made durable at once, since after a crash they would be observed again.
  bool decides = false;
  // Both leave in the order of the steps. What tells only what was observed: when every decision before it is durable.
  std::vector<Action> observed;
  // When the records of this step are, and all before it.
  std::vector<Action> actions;
};

}  // namespace troupe::scheduler
