// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/head_service.h"

#include <algorithm>

#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/rpc/status.h"
#include "scheduler/server/answer_reactor.h"
#include "scheduler/server/job_logs.h"
#include "scheduler/server/watcher.h"

namespace troupe::scheduler {
namespace {

constexpr absl::Duration kFollowInterval = absl::Milliseconds(200);
constexpr size_t kLogLinesPerRead = 1000;

}  // namespace

// The callers' deadlines bound these calls, and without one the commit's: a head that cannot record ends.
template <typename E>
grpc::ServerUnaryReactor* HeadService::Ask(E event, std::function<absl::Status(Answer)> fill) {
  auto post = [this, &event](CallId call) {
    event.call = call;
    return hooks_.post(std::move(event));
  };
  return AnswerReactor::Start(hooks_.calls, post, std::move(fill));
}

template <typename E>
grpc::ServerUnaryReactor* HeadService::AskForJob(E event, const std::string& job_id, v1::Job* response) {
  return Ask(std::move(event), [this, job_id, response](const Answer&) {
    absl::StatusOr<v1::Job> job = hooks_.board->GetJob(job_id);
    if (job.ok()) *response = *std::move(job);
    return job.status();
  });
}

template <typename E>
grpc::ServerUnaryReactor* HeadService::AskForNode(E event, const std::string& node_id, v1::Node* response) {
  return Ask(std::move(event), [this, node_id, response](const Answer&) {
    absl::StatusOr<v1::Node> node = hooks_.board->GetNode(node_id, MonotonicNow());
    if (node.ok()) *response = *std::move(node);
    return node.status();
  });
}

grpc::ServerUnaryReactor* HeadService::SubmitJob(grpc::CallbackServerContext*, const v1::SubmitJobRequest* request,
                                                 v1::SubmitJobResponse* response) {
  return Ask(scheduler::SubmitJob{0, *request, RandomUint64()}, [response](Answer answer) {
    *response = std::move(answer.submit);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* HeadService::CancelJob(grpc::CallbackServerContext*, const v1::CancelJobRequest* request,
                                                 v1::Job* response) {
  return AskForJob(scheduler::CancelJob{0, *request}, request->job_id(), response);
}

grpc::ServerUnaryReactor* HeadService::StopJob(grpc::CallbackServerContext*, const v1::StopJobRequest* request,
                                               v1::Job* response) {
  return AskForJob(scheduler::StopJob{0, request->job_id()}, request->job_id(), response);
}

grpc::ServerUnaryReactor* HeadService::ReportProgress(grpc::CallbackServerContext*,
                                                      const v1::ReportProgressRequest* request,
                                                      v1::ReportProgressResponse*) {
  return Ask(scheduler::ReportProgress{0, *request}, [](const Answer&) { return absl::OkStatus(); });
}

grpc::ServerUnaryReactor* HeadService::FinishJob(grpc::CallbackServerContext*, const v1::FinishJobRequest* request,
                                                 v1::FinishJobResponse*) {
  return Ask(scheduler::FinishJob{0, *request}, [](const Answer&) { return absl::OkStatus(); });
}

grpc::ServerUnaryReactor* HeadService::SetQueue(grpc::CallbackServerContext*, const v1::SetQueueRequest* request,
                                                v1::Queue* response) {
  return Ask(scheduler::SetQueue{0, request->queue()}, [response](Answer answer) {
    *response = std::move(answer.queues.at(0));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* HeadService::ListQueues(grpc::CallbackServerContext*, const v1::ListQueuesRequest*,
                                                  v1::ListQueuesResponse* response) {
  return Ask(scheduler::ListQueues{}, [response](Answer answer) {
    for (v1::Queue& queue : answer.queues) *response->add_queues() = std::move(queue);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* HeadService::ExplainJob(grpc::CallbackServerContext*, const v1::ExplainJobRequest* request,
                                                  v1::Explanation* response) {
  return Ask(scheduler::ExplainJob{0, request->job_id()}, [response](const Answer& answer) {
    *response = *answer.explanation;
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* HeadService::ScaleJob(grpc::CallbackServerContext*, const v1::ScaleJobRequest* request,
                                                v1::Job* response) {
  return AskForJob(scheduler::ScaleJob{0, *request}, request->job_id(), response);
}

grpc::ServerUnaryReactor* HeadService::DrainNode(grpc::CallbackServerContext*, const v1::DrainNodeRequest* request,
                                                 v1::Node* response) {
  return AskForNode(scheduler::DrainNode{0, *request}, request->node_id(), response);
}

grpc::ServerUnaryReactor* HeadService::UndrainNode(grpc::CallbackServerContext*, const v1::UndrainNodeRequest* request,
                                                   v1::Node* response) {
  return AskForNode(scheduler::UndrainNode{0, request->node_id()}, request->node_id(), response);
}

grpc::Status HeadService::ListGroups(grpc::ServerContext*, const v1::ListGroupsRequest* request,
                                     v1::ListGroupsResponse* response) {
  absl::StatusOr<std::vector<v1::Group>> groups = hooks_.board->ListGroups(request->job_id());
  if (!groups.ok()) return ToGrpc(groups.status());
  for (v1::Group& group : *groups) *response->add_groups() = std::move(group);
  return grpc::Status::OK;
}

grpc::Status HeadService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request, v1::Job* response) {
  absl::StatusOr<v1::Job> job = hooks_.board->GetJob(request->job_id());
  if (job.ok()) *response = *std::move(job);
  return ToGrpc(job.status());
}

grpc::Status HeadService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                   v1::ListJobsResponse* response) {
  absl::StatusOr<v1::ListJobsResponse> jobs = hooks_.board->ListJobs(request->page_size(), request->page_token());
  if (jobs.ok()) *response = *std::move(jobs);
  return ToGrpc(jobs.status());
}

grpc::Status HeadService::ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                                    v1::ListNodesResponse* response) {
  for (v1::Node& node : hooks_.board->ListNodes(MonotonicNow())) *response->add_nodes() = std::move(node);
  return grpc::Status::OK;
}

grpc::Status HeadService::ListActors(grpc::ServerContext*, const v1::ListActorsRequest* request,
                                     v1::ListActorsResponse* response) {
  absl::StatusOr<std::vector<v1::Actor>> actors = hooks_.board->ListActors(request->job_id());
  if (!actors.ok()) return ToGrpc(actors.status());
  for (v1::Actor& actor : *actors) *response->add_actors() = std::move(actor);
  return grpc::Status::OK;
}

grpc::Status HeadService::ReadLogs(grpc::ServerContext* context, const v1::ReadLogsRequest* request,
                                   grpc::ServerWriter<v1::LogLine>* writer) {
  absl::StatusOr<v1::Job> job = hooks_.board->GetJob(request->job_id());
  if (!job.ok()) return ToGrpc(job.status());
  if (log_readers_.fetch_add(1) >= kLogReadersMax) {
    log_readers_.fetch_sub(1);
    return ToGrpc(absl::ResourceExhaustedError("too many readers of logs at once: try again later"));
  }
  grpc::Status status = Follow(context, *request, *job, writer);
  log_readers_.fetch_sub(1);
  return status;
}

grpc::Status HeadService::Follow(grpc::ServerContext* context, const v1::ReadLogsRequest& request, const v1::Job& job,
                                 grpc::ServerWriter<v1::LogLine>* writer) {
  JobLogs logs(job.spec().output_dir(), {request.job_id(), request.role(), request.replica(),
                                         std::clamp<int64_t>(request.since_unix_ms(), 0, INT64_MAX / 1000) * 1000});
  int64_t left = request.follow() ? INT64_MAX : request.max_lines() > 0 ? request.max_lines() : kLogLinesDefault;
  while (!context->IsCancelled() && !closed_ && left > 0) {
    // Before the read, so that nothing that was written before the end is missed.
    absl::StatusOr<v1::Job> now = hooks_.board->GetJob(request.job_id());
    bool over = !request.follow() || !now.ok() || IsTerminal(now->state());
    size_t wanted = std::min<size_t>(kLogLinesPerRead, static_cast<size_t>(left));
    absl::StatusOr<std::vector<v1::LogLine>> lines = logs.Read(wanted);
    if (!lines.ok()) return ToGrpc(lines.status());
    for (const v1::LogLine& line : *lines) {
      if (!writer->Write(line)) return grpc::Status::CANCELLED;
    }
    left -= static_cast<int64_t>(lines->size());
    if (lines->size() == wanted) continue;
    if (over) return grpc::Status::OK;
    PauseFor(kFollowInterval);
  }
  return closed_ ? ToGrpc(absl::UnavailableError("the head ends")) : grpc::Status::OK;
}

grpc::ServerWriteReactor<v1::JobUpdate>* HeadService::WatchJob(grpc::CallbackServerContext*,
                                                               const v1::WatchJobRequest* request) {
  return WatchReactor<v1::JobUpdate>::Start(hooks_.board, request->job_id(), &closed_, [this](auto kick) {
    MutexLock lock(mutex_);
    std::erase_if(watchers_, [](const auto& watcher) { return watcher.expired(); });
    watchers_.push_back(std::move(kick));
  });
}

grpc::ServerWriteReactor<v1::ActorUpdate>* HeadService::WatchActors(grpc::CallbackServerContext*,
                                                                    const v1::WatchActorsRequest* request) {
  return WatchReactor<v1::ActorUpdate>::Start(hooks_.board, request->job_id(), &closed_, [this](auto kick) {
    MutexLock lock(mutex_);
    std::erase_if(watchers_, [](const auto& watcher) { return watcher.expired(); });
    watchers_.push_back(std::move(kick));
  });
}

void HeadService::Close() {
  closed_ = true;
  std::vector<std::weak_ptr<std::function<void()>>> watchers;
  {
    MutexLock lock(mutex_);
    watchers.swap(watchers_);
  }
  for (const auto& watcher : watchers) {
    if (auto kick = watcher.lock()) (*kick)();
  }
  hooks_.calls->CloseAll();
}

}  // namespace troupe::scheduler
