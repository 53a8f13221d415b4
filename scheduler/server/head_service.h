// SPDX-License-Identifier: Apache-2.0
// HeadService: the service Head. Changes are asked of the deciding thread and wait for its durable answer; reads come
// from the ViewBoard; watchers are reactors of the callback API, which cost no threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "scheduler/server/calls.h"
#include "scheduler/server/view_board.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe::scheduler {

class HeadService final
    : public v1::Head::WithCallbackMethod_WatchJob<v1::Head::WithCallbackMethod_WatchActors<v1::Head::Service>> {
 public:
  static constexpr int kLogReadersMax = 64;  // Each one that follows holds a thread.
  static constexpr int64_t kLogLinesDefault = 10'000;

  struct Hooks {
    std::function<bool(Event)> post;
    Calls* calls;
    ViewBoard* board;
  };
  explicit HeadService(Hooks hooks) : hooks_(std::move(hooks)) {}

  // Handlers that wait return soon; watchers end with UNAVAILABLE.
  void Close();

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::SubmitJobResponse*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsResponse*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::Job*) override;
  grpc::Status StopJob(grpc::ServerContext*, const v1::StopJobRequest*, v1::Job*) override;
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*, v1::ListNodesResponse*) override;
  grpc::Status ListActors(grpc::ServerContext*, const v1::ListActorsRequest*, v1::ListActorsResponse*) override;
  grpc::Status ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest*, grpc::ServerWriter<v1::LogLine>*) override;
  grpc::Status ReportProgress(grpc::ServerContext*, const v1::ReportProgressRequest*,
                              v1::ReportProgressResponse*) override;
  grpc::Status FinishJob(grpc::ServerContext*, const v1::FinishJobRequest*, v1::FinishJobResponse*) override;
  grpc::ServerWriteReactor<v1::JobUpdate>* WatchJob(grpc::CallbackServerContext*, const v1::WatchJobRequest*) override;
  grpc::ServerWriteReactor<v1::ActorUpdate>* WatchActors(grpc::CallbackServerContext*,
                                                         const v1::WatchActorsRequest*) override;

 private:
  grpc::Status Follow(grpc::ServerContext* context, const v1::ReadLogsRequest& request, const v1::Job& job,
                      grpc::ServerWriter<v1::LogLine>* writer);
  template <typename E>
  Answer Ask(grpc::ServerContext* context, E event);

  const Hooks hooks_;
  std::atomic<bool> closed_{false};
  std::atomic<int> log_readers_{0};
  // Called by Close; each open watcher holds one.
  Mutex mutex_;
  std::vector<std::weak_ptr<std::function<void()>>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe::scheduler
