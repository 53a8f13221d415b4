// SPDX-License-Identifier: Apache-2.0
// HeadService: the service Head. Changes are asked of the deciding thread and wait for its durable answer; reads come
// from the ViewBoard. What waits or watches is a reactor of the callback API, which costs no thread; a reader of logs
// holds one.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "scheduler/server/calls.h"
#include "scheduler/server/view_board.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe::scheduler {

// Head::Service whose calls that wait are those of the callback API.
using WaitingHeadService = v1::Head::WithCallbackMethod_SubmitJob<v1::Head::WithCallbackMethod_CancelJob<
    v1::Head::WithCallbackMethod_StopJob<v1::Head::WithCallbackMethod_ReportProgress<
        v1::Head::WithCallbackMethod_FinishJob<v1::Head::WithCallbackMethod_WatchJob<
            v1::Head::WithCallbackMethod_WatchActors<v1::Head::WithCallbackMethod_SetQueue<
                v1::Head::WithCallbackMethod_ListQueues<v1::Head::WithCallbackMethod_ExplainJob<
                    v1::Head::WithCallbackMethod_ScaleJob<v1::Head::WithCallbackMethod_DrainNode<
                        v1::Head::WithCallbackMethod_UndrainNode<v1::Head::Service>>>>>>>>>>>>>;

class HeadService final : public WaitingHeadService {
 public:
  static constexpr int kLogReadersMax = 64;  // Each one that follows holds a thread.
  static constexpr int64_t kLogLinesDefault = 10'000;

  struct Hooks {
    std::function<bool(Event)> post;  // It may block for a commit (DecisionLoop::Decide).
    Calls* calls;
    ViewBoard* board;
  };
  explicit HeadService(Hooks hooks) : hooks_(std::move(hooks)) {}

  // What waits or watches ends with UNAVAILABLE; readers of logs return soon.
  void Close();

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext*, const v1::SubmitJobRequest*,
                                      v1::SubmitJobResponse*) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext*, const v1::CancelJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* StopJob(grpc::CallbackServerContext*, const v1::StopJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* ReportProgress(grpc::CallbackServerContext*, const v1::ReportProgressRequest*,
                                           v1::ReportProgressResponse*) override;
  grpc::ServerUnaryReactor* FinishJob(grpc::CallbackServerContext*, const v1::FinishJobRequest*,
                                      v1::FinishJobResponse*) override;
  grpc::ServerUnaryReactor* SetQueue(grpc::CallbackServerContext*, const v1::SetQueueRequest*, v1::Queue*) override;
  grpc::ServerUnaryReactor* ListQueues(grpc::CallbackServerContext*, const v1::ListQueuesRequest*,
                                       v1::ListQueuesResponse*) override;
  grpc::ServerUnaryReactor* ExplainJob(grpc::CallbackServerContext*, const v1::ExplainJobRequest*,
                                       v1::Explanation*) override;
  grpc::ServerUnaryReactor* ScaleJob(grpc::CallbackServerContext*, const v1::ScaleJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* DrainNode(grpc::CallbackServerContext*, const v1::DrainNodeRequest*, v1::Node*) override;
  grpc::ServerUnaryReactor* UndrainNode(grpc::CallbackServerContext*, const v1::UndrainNodeRequest*,
                                        v1::Node*) override;
  grpc::Status ListGroups(grpc::ServerContext*, const v1::ListGroupsRequest*, v1::ListGroupsResponse*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsResponse*) override;
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*, v1::ListNodesResponse*) override;
  grpc::Status ListActors(grpc::ServerContext*, const v1::ListActorsRequest*, v1::ListActorsResponse*) override;
  grpc::Status ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest*, grpc::ServerWriter<v1::LogLine>*) override;
  grpc::ServerWriteReactor<v1::JobUpdate>* WatchJob(grpc::CallbackServerContext*, const v1::WatchJobRequest*) override;
  grpc::ServerWriteReactor<v1::ActorUpdate>* WatchActors(grpc::CallbackServerContext*,
                                                         const v1::WatchActorsRequest*) override;

 private:
  grpc::Status Follow(grpc::ServerContext* context, const v1::ReadLogsRequest& request, const v1::Job& job,
                      grpc::ServerWriter<v1::LogLine>* writer);
  template <typename E>
  grpc::ServerUnaryReactor* Ask(E event, std::function<absl::Status(Answer)> fill);
  // Asks, and answers with the node.
  template <typename E>
  grpc::ServerUnaryReactor* AskForNode(E event, const std::string& node_id, v1::Node* response);
  // Asks, and answers with the job.
  template <typename E>
  grpc::ServerUnaryReactor* AskForJob(E event, const std::string& job_id, v1::Job* response);

  const Hooks hooks_;
  std::atomic<bool> closed_{false};
  std::atomic<int> log_readers_{0};
  // Called by Close; each open watcher holds one.
  Mutex mutex_;
  std::vector<std::weak_ptr<std::function<void()>>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe::scheduler
