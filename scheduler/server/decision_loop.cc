// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/decision_loop.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"

namespace troupe::scheduler {
namespace {

Now ReadClocks() { return {MonotonicNow(), absl::ToUnixMillis(WallNow())}; }

}  // namespace

absl::StatusOr<std::unique_ptr<DecisionLoop>> DecisionLoop::Start(LoopOptions options,
                                                                  std::unique_ptr<RecordStore> store) {
  TROUPE_ASSIGN_OR_RETURN(RecordStore::Contents contents, store->Load());
  ClusterState state = ClusterState::FromSnapshot(contents.snapshot);
  for (const v1::Record& record : contents.records) state.Apply(record);
  size_t replayed = contents.records.size();
  std::unique_ptr<DecisionLoop> loop(new DecisionLoop(std::move(options), std::move(store), std::move(state)));
  loop->records_since_snapshot_ = replayed;
  loop->Step(StartTerm{});
  loop->term_ = loop->cluster_.term();
  auto durable = std::make_shared<std::promise<absl::Status>>();
  loop->store_->Append({}, [durable](absl::Status status) { durable->set_value(std::move(status)); });
  std::future<absl::Status> recorded = durable->get_future();
  if (recorded.wait_for(absl::ToChronoNanoseconds(loop->options_.commit_timeout)) != std::future_status::ready) {
    loop->LeaveStore();
    return absl::DeadlineExceededError("the disk under the head's records does not answer");
  }
  TROUPE_RETURN_IF_ERROR(Annotate(recorded.get(), "the new term could not be recorded"));
  loop->thread_ = std::thread([loop = loop.get()] { loop->Run(); });
  return loop;
}

DecisionLoop::DecisionLoop(LoopOptions options, std::unique_ptr<RecordStore> store, ClusterState recovered)
    : options_(std::move(options)),
      gate_(std::make_shared<Gate>()),
      cluster_(options_.cluster, std::move(recovered)),
      store_(std::move(store)) {
  MutexLock lock(gate_->mutex);
  gate_->loop = this;
}

DecisionLoop::~DecisionLoop() { Stop(); }

bool DecisionLoop::Post(Event event) {
  MutexLock lock(mutex_);
  if (stopping_ || !status_.ok() || events_.size() >= kEventsMax) return false;
  events_.push_back(std::move(event));
  changed_.NotifyAll();
  return true;
}

void DecisionLoop::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  if (absl::IsDeadlineExceeded(status())) LeaveStore();
  store_.reset();  // Makes durable what is in flight.
  std::vector<std::vector<Action>> last;
  {
    MutexLock lock(mutex_);
    last.swap(durable_);
  }
  Deliver(std::move(last));
}

// Its end would wait for the disk.
void DecisionLoop::LeaveStore() {
  {
    MutexLock lock(gate_->mutex);
    gate_->loop = nullptr;
  }
  static Mutex mutex;
  static auto* const left = new std::vector<std::unique_ptr<RecordStore>>;
  MutexLock lock(mutex);
  left->push_back(std::move(store_));
}

absl::Status DecisionLoop::status() const {
  MutexLock lock(mutex_);
  return status_;
}

void DecisionLoop::Run() {
  for (Work work; WaitForWork(work); work = {}) {
    Deliver(std::move(work.durable));
    for (const Event& event : work.events) Step(event);
    // After everything that came in: silence is judged last.
    if (MonotonicNow() >= cluster_.NextWake()) Step(Tick{});
  }
}

// False when the loop is to end.
bool DecisionLoop::WaitForWork(Work& work) {
  bool late_commit = false;
  for (MutexLock lock(mutex_); !late_commit;) {
    if (!status_.ok()) return false;
    const size_t room = kStepsAheadMax - std::min(in_flight_.size(), kStepsAheadMax);
    if (!durable_.empty() || (room > 0 && !events_.empty())) {
      work.durable.swap(durable_);
      for (size_t i = 0; i < room && !events_.empty(); ++i) {
        work.events.push_back(std::move(events_.front()));
        events_.pop_front();
      }
      return true;
    }
    if (stopping_ && events_.empty()) return false;
    Monotonic now = MonotonicNow();
    Monotonic wake = room > 0 ? cluster_.NextWake() : Monotonic::Infinite();
    if (now >= wake) return true;
    if (!in_flight_.empty()) {
      Monotonic late = in_flight_.front() + options_.commit_timeout;
      if (now >= late) {
        late_commit = true;
        continue;
      }
      wake = std::min(wake, late);
    }
    changed_.WaitUntil(lock, wake, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !status_.ok() || !durable_.empty() || (room > 0 && (stopping_ || !events_.empty()));
    });
  }
  Fail(absl::DeadlineExceededError(
      absl::StrCat("the store has not committed for ", absl::FormatDuration(options_.commit_timeout))));
  return false;
}

void DecisionLoop::Deliver(std::vector<std::vector<Action>> durable) {
  for (std::vector<Action>& actions : durable) {
    for (Action& action : actions) options_.deliver(std::move(action));
  }
}

void DecisionLoop::Step(const Event& event) {
  StepResult result = cluster_.Step(event, ReadClocks());
  if (result.records.empty() && result.actions.empty()) return;
  {
    MutexLock lock(mutex_);
    in_flight_.push_back(MonotonicNow());
  }
  records_since_snapshot_ += result.records.size();
  store_->Append(std::move(result.records),
                 [gate = gate_, actions = std::move(result.actions)](absl::Status status) mutable {
                   MutexLock lock(gate->mutex);
                   if (gate->loop != nullptr) gate->loop->CommitDone(status, std::move(actions));
                 });
  if (records_since_snapshot_ < kRecordsPerSnapshot) return;
  records_since_snapshot_ = 0;
  store_->Snapshot(cluster_.state().ToSnapshot(), [gate = gate_](absl::Status status) {
    MutexLock lock(gate->mutex);
    if (!status.ok() && gate->loop != nullptr) gate->loop->Fail(status);
  });
}

void DecisionLoop::CommitDone(const absl::Status& status, std::vector<Action> actions) {
  if (!status.ok()) return Fail(status);
  MutexLock lock(mutex_);
  in_flight_.pop_front();
  if (!status_.ok()) return;  // It has given up already: nothing may leave any more.
  durable_.push_back(std::move(actions));
  changed_.NotifyAll();
}

void DecisionLoop::Fail(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (!status_.ok()) return;
    status_ = Annotate(status, "the head can record no decision and must end");
    changed_.NotifyAll();
  }
  if (options_.on_fatal) options_.on_fatal(this->status());
}

}  // namespace troupe::scheduler
