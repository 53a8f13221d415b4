// SPDX-License-Identifier: Apache-2.0
// WatchReactor: one open WatchJob or WatchActors. At most one message is being written; when it is out the newest state
// is taken, so a slow reader costs one message and skips states.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/rpc/status.h"
#include "scheduler/server/view_board.h"

namespace troupe::scheduler {

template <typename Update>
class WatchReactor final : public grpc::ServerWriteReactor<Update> {
 public:
  using Kick = std::weak_ptr<std::function<void()>>;

  // `on_open` gets what makes it look again (at Close of the service). Owned by itself until OnDone.
  static WatchReactor* Start(ViewBoard* board, const std::string& job_id, const std::atomic<bool>* closed,
                             const std::function<void(Kick)>& on_open) {
    auto* reactor = new WatchReactor(board, job_id, closed);
    std::shared_ptr<std::function<void()>> kick = reactor->kick_;
    on_open(kick);
    board->Watch(job_id, kick);
    (*kick)();
    return reactor;
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(link_->mutex);
    writing_ = false;
    if (!ok) return FinishLocked(absl::UnavailableError("the stream broke"));
    LookLocked();
  }
  void OnCancel() override {
    MutexLock lock(link_->mutex);
    cancelled_ = true;
    LookLocked();
  }
  void OnDone() override {
    {
      MutexLock lock(link_->mutex);
      link_->reactor = nullptr;  // A kick that is under way finds nobody.
    }
    delete this;
  }

 private:
  // Outlives the reactor as long as a kick is under way.
  struct Link {
    Mutex mutex;
    WatchReactor* reactor;
  };

  WatchReactor(ViewBoard* board, std::string job_id, const std::atomic<bool>* closed)
      : board_(board), job_id_(std::move(job_id)), closed_(closed), link_(std::make_shared<Link>()) {
    link_->reactor = this;
    kick_ = std::make_shared<std::function<void()>>([link = link_] {
      MutexLock lock(link->mutex);
      if (link->reactor != nullptr) link->reactor->LookLocked();
    });
  }

  void LookLocked() {
    if (writing_ || finished_) return;
    if (cancelled_) return FinishLocked(absl::CancelledError("the reader is gone"));
    if (*closed_) return FinishLocked(absl::UnavailableError("the head ends"));
    absl::StatusOr<ViewBoard::Changes> changes = board_->ChangesSince(job_id_, &seen_);
    if (!changes.ok()) return FinishLocked(changes.status());
    over_ = over_ || changes->over;
    if (changes->job != nullptr && Fill(*changes)) {
      writing_ = true;
      this->StartWrite(&update_);
    } else if (over_) {
      FinishLocked(absl::OkStatus());
    }
  }
  void FinishLocked(const absl::Status& status) {
    if (std::exchange(finished_, true)) return;
    this->Finish(ToGrpc(status));
  }

  // False when the change is none for this kind of reader.
  bool Fill(const ViewBoard::Changes& changes) {
    if constexpr (std::is_same_v<Update, v1::JobUpdate>) {
      absl::StatusOr<v1::Job> job = board_->GetJob(job_id_);
      if (!job.ok()) return false;
      *update_.mutable_job() = *std::move(job);
      return true;
    } else {
      bool stop = changes.job->stop_requested();
      if (changes.actors.empty() && told_stop_ == stop) return false;
      update_.Clear();
      for (const v1::Actor& actor : changes.actors) *update_.add_actors() = actor;
      update_.set_stop_requested(stop);
      told_stop_ = stop;
      return true;
    }
  }

  ViewBoard* const board_;
  const std::string job_id_;
  const std::atomic<bool>* const closed_;
  const std::shared_ptr<Link> link_;  // Its mutex guards everything below.
  std::shared_ptr<std::function<void()>> kick_;
  uint64_t seen_ = 0;
  Update update_;
  std::optional<bool> told_stop_;
  bool writing_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  bool over_ = false;
};

}  // namespace troupe::scheduler
