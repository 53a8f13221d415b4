// SPDX-License-Identifier: Apache-2.0
// HeadClient: what the controller tells the head. Progress is soft: only the newest is sent, and it is dropped while
// the head is away. The end of the job is told until the head has taken it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe {

// At most one report each so long.
inline constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);

class HeadClient {
 public:
  HeadClient(std::shared_ptr<grpc::Channel> channel, ActorLife controller);
  ~HeadClient();

  // Does not wait.
  void Report(v1::JobProgress progress);
  // Does not wait; tried again with backoff until it was taken or the client ends.
  void Finish(v1::FinishJobRequest finish);
  // Whether the head said that another controller lives: this one must end.
  bool superseded() const;

 private:
  void Run();
  grpc::Status Send(const std::optional<v1::JobProgress>& progress, const std::optional<v1::FinishJobRequest>& finish);

  std::unique_ptr<v1::Head::Stub> stub_;
  const ActorLife controller_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::optional<v1::JobProgress> progress_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::FinishJobRequest> finish_ ABSL_GUARDED_BY(mutex_);
  bool superseded_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace troupe
