// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/head_client.h"

#include <algorithm>

#include "runtime/env/clock.h"
#include "runtime/rpc/channel.h"

namespace troupe {
namespace {

constexpr absl::Duration kRpcTimeout = absl::Seconds(10);
constexpr absl::Duration kBackoffMax = absl::Seconds(2);

}  // namespace

HeadClient::HeadClient(std::shared_ptr<grpc::Channel> channel, ActorLife controller)
    : stub_(v1::Head::NewStub(channel)), controller_(std::move(controller)), thread_([this] { Run(); }) {}

HeadClient::~HeadClient() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void HeadClient::Report(v1::JobProgress progress) {
  MutexLock lock(mutex_);
  progress_ = std::move(progress);
  changed_.NotifyAll();
}

void HeadClient::Finish(v1::FinishJobRequest finish) {
  MutexLock lock(mutex_);
  finish_ = std::move(finish);
  *finish_->mutable_controller() = controller_.ToProto();
  changed_.NotifyAll();
}

bool HeadClient::superseded() const {
  MutexLock lock(mutex_);
  return superseded_;
}

void HeadClient::Run() {
  absl::Duration backoff = absl::Milliseconds(100);
  Monotonic not_before;
  while (true) {
    std::optional<v1::JobProgress> progress;
    std::optional<v1::FinishJobRequest> finish;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, Monotonic::Infinite(),
                         [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ending_ || progress_ || finish_; });
      changed_.WaitUntil(lock, not_before, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ending_; });
      if (ending_) return;
      progress = std::exchange(progress_, std::nullopt);
      finish = finish_;
    }
    grpc::Status status = Send(progress, finish);
    MutexLock lock(mutex_);
    if (status.error_code() == grpc::StatusCode::ABORTED) superseded_ = true;
    bool taken = status.ok() || superseded_;
    if (taken && finish) finish_.reset();
    backoff = taken ? absl::Milliseconds(100) : std::min(backoff * 2, kBackoffMax);
    not_before = MonotonicNow() + (taken ? kProgressInterval : backoff);
  }
}

grpc::Status HeadClient::Send(const std::optional<v1::JobProgress>& progress,
                              const std::optional<v1::FinishJobRequest>& finish) {
  if (progress) {
    grpc::ClientContext context;
    SetTimeout(context, kRpcTimeout);
    v1::ReportProgressRequest request;
    *request.mutable_controller() = controller_.ToProto();
    *request.mutable_progress() = *progress;
    v1::ReportProgressResponse response;
    grpc::Status status = stub_->ReportProgress(&context, request, &response);
    if (!status.ok() && !finish) return status;
  }
  if (!finish) return grpc::Status::OK;
  grpc::ClientContext context;
  SetTimeout(context, kRpcTimeout);
  v1::FinishJobResponse response;
  return stub_->FinishJob(&context, *finish, &response);
}

}  // namespace troupe
