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
  loop->Write(RecordStore::Writer::kStore);
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
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (stopping_ || !status_.ok() || events_.size() >= kEventsMax) return false;
    events_.push_back(std::move(event));
    wake = !busy_ && events_.size() == 1;
  }
  if (wake) changed_.NotifyAll();  // When the lock is free, or who wakes would sleep again at once.
  return true;
}

bool DecisionLoop::Decide(Event event, RecordStore::Writer writer) {
  bool here = false;
  {
    MutexLock lock(mutex_);
    const bool idle = !busy_ && events_.empty() && durable_.empty() && decisions_in_flight_ == 0;
    here = idle && !stopping_ && status_.ok();
    busy_ = busy_ || here;
  }
  if (!here) return Post(std::move(event));
  Step(event);
  Write(writer);
  Deliver(TakeDurable());
  MutexLock lock(mutex_);
  busy_ = false;
  const bool more = !events_.empty() || !durable_.empty() || stopping_ || !status_.ok() || SnapshotDue();
  if (more || std::min(write_at_, cluster_.NextWake()) < loop_wakes_) changed_.NotifyAll();
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
    Write(RecordStore::Writer::kStore);
    if (SnapshotDue()) TakeSnapshot();
    MutexLock lock(mutex_);
    busy_ = false;
  }
}

// False when the loop is to end.
bool DecisionLoop::WaitForWork(Work& work) {
  for (MutexLock lock(mutex_);;) {
    if (!status_.ok() && !busy_) return false;
    Monotonic now = MonotonicNow();
    if (!in_flight_.empty() && now >= in_flight_.front().since + options_.commit_timeout) break;
    const size_t room = kStepsAheadMax - std::min(in_flight_.size(), kStepsAheadMax);
    if (!busy_) {
      const bool due = now >= write_at_ || (room > 0 && now >= cluster_.NextWake()) || SnapshotDue();
      if (!durable_.empty() || (room > 0 && !events_.empty()) || due) {
        busy_ = true;
        work.durable.swap(durable_);
        for (size_t i = 0; i < room && !events_.empty(); ++i) {
          work.events.push_back(std::move(events_.front()));
          events_.pop_front();
        }
        return true;
      }
      if (stopping_ && events_.empty()) return false;
    }
    // A caller of Decide does not tell that it waits for the disk: it is looked after now and then.
    Monotonic wake = (in_flight_.empty() ? now : in_flight_.front().since) + options_.commit_timeout;
    if (!busy_) wake = std::min(wake, write_at_);
    if (!busy_ && room > 0) wake = std::min(wake, cluster_.NextWake());
    loop_wakes_ = wake;
    changed_.WaitUntil(lock, wake, [first = true]() mutable { return !std::exchange(first, false); });
  }
  Fail(absl::DeadlineExceededError(
      absl::StrCat("the store has not committed for ", absl::FormatDuration(options_.commit_timeout))));
  MutexLock lock(mutex_);
  changed_.WaitUntil(lock, Monotonic::Infinite(), [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !busy_; });
  return false;
}

void DecisionLoop::Deliver(std::vector<std::vector<Action>> durable) {
  for (std::vector<Action>& actions : durable) {
    for (Action& action : actions) options_.deliver(std::move(action));
  }
  if (!durable.empty() && options_.delivered) options_.delivered();
}

std::vector<std::vector<Action>> DecisionLoop::TakeDurable() {
  MutexLock lock(mutex_);
  return std::exchange(durable_, {});
}

void DecisionLoop::Step(const Event& event) {
  StepResult result = cluster_.Step(event, ReadClocks());
  records_since_snapshot_ += result.records.size();
  if (!result.observed.empty()) {
    MutexLock lock(mutex_);
    if (decisions_in_flight_ == 0) durable_.push_back(std::exchange(result.observed, {}));
  }
  if (!result.observed.empty()) Append({}, false, std::move(result.observed));
  if (!result.records.empty() || !result.actions.empty()) {
    Append(std::move(result.records), result.decides, std::move(result.actions));
  }
}

void DecisionLoop::Append(std::vector<v1::Record> records, bool decides, std::vector<Action> actions) {
  {
    MutexLock lock(mutex_);
    Monotonic now = MonotonicNow();
    in_flight_.push_back({now, decides});
    decisions_in_flight_ += decides;
    // What waits for others only need not wait any longer.
    write_now_ = write_now_ || decides || records.empty();
    write_at_ = std::min(write_at_, now + kCompanyMax);
  }
  store_->Append(std::move(records), [gate = gate_, actions = std::move(actions)](const absl::Status& status) mutable {
    MutexLock lock(gate->mutex);
    if (gate->loop != nullptr) gate->loop->CommitDone(status, std::move(actions));
  });
}

void DecisionLoop::Write(RecordStore::Writer writer) {
  {
    MutexLock lock(mutex_);
    if (!write_now_ && MonotonicNow() < write_at_) return;
    write_now_ = false;
    write_at_ = Monotonic::Infinite();
  }
  store_->Write(writer);
}

void DecisionLoop::TakeSnapshot() {
  records_since_snapshot_ = 0;
  store_->Snapshot(cluster_.state().ToSnapshot(), [gate = gate_](const absl::Status& status) {
    MutexLock lock(gate->mutex);
    if (!status.ok() && gate->loop != nullptr) gate->loop->Fail(status);
  });
  store_->Write(RecordStore::Writer::kStore);
}

void DecisionLoop::CommitDone(const absl::Status& status, std::vector<Action> actions) {
  if (!status.ok()) return Fail(status);
  bool wake = false;
  {
    MutexLock lock(mutex_);
    decisions_in_flight_ -= in_flight_.front().decides;
    in_flight_.pop_front();
    if (!status_.ok()) return;  // It has given up already: nothing may leave any more.
    durable_.push_back(std::move(actions));
    wake = !busy_ && durable_.size() == 1;
  }
  if (wake) changed_.NotifyAll();
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
