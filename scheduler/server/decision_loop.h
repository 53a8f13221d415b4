// SPDX-License-Identifier: Apache-2.0
// DecisionLoop: the driver around Cluster. One thread takes events, steps, and hands the records to the store; when
// they are durable it delivers the actions of the step, in order. Steps run ahead of the disk, and the store's thread
// does nothing but write. When nothing is under way, a caller steps itself, and one that may block writes, too: an
// answer then costs one commit and no way between threads, and what a node reports none at all.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "runtime/base/mutex.h"
#include "scheduler/core/cluster.h"
#include "scheduler/store/record_store.h"

namespace troupe::scheduler {

struct LoopOptions {
  ClusterOptions cluster;
  absl::Duration commit_timeout = absl::Seconds(30);
  std::function<void(Action)> deliver;                // On the loop's thread or Decide's; the last ones on Stop's.
  std::function<void()> delivered;                    // After what became durable together; may be empty.
  std::function<void(const absl::Status&)> on_fatal;  // Once; may be empty.
};

class DecisionLoop {
 public:
  static constexpr size_t kEventsMax = 100'000;     // Waiting; beyond it Post refuses.
  static constexpr size_t kStepsAheadMax = 10'000;  // Steps whose records are not durable yet.
  static constexpr size_t kRecordsPerSnapshot = 20'000;
  // How long records that decide nothing wait for others to be written with.
  static constexpr absl::Duration kCompanyMax = absl::Milliseconds(2);

  // Recovers from the store, starts a term and waits until that is durable. Errors of the store.
  static absl::StatusOr<std::unique_ptr<DecisionLoop>> Start(LoopOptions options, std::unique_ptr<RecordStore> store);
  // Stop().
  ~DecisionLoop();

  // False: too many wait, or the loop has ended.
  bool Post(Event event);
  // The same; when nothing is under way, the event is decided before it returns, and what rests on no record is
  // delivered. `writer`: who writes its records; kCaller: they are durable, and all of it is delivered, when it
  // returns.
  bool Decide(Event event, RecordStore::Writer writer = RecordStore::Writer::kCaller);

  // Takes no more events, decides those that wait, and returns when all is durable and delivered. Idempotent. After a
  // commit that took too long it does not wait for the disk, unless a caller of Decide does: the store is left to the
  // end of the process.
  void Stop();

  // OK, or why it decides no more.
  absl::Status status() const;
  uint64_t term() const { return term_; }

 private:
  DecisionLoop(LoopOptions options, std::unique_ptr<RecordStore> store, ClusterState recovered);
  void Run();
  void Step(const Event& event);
  void Append(std::vector<v1::Record> records, bool decides, std::vector<Action> actions);
  void Write(RecordStore::Writer writer);
  void TakeSnapshot();
  // Between the loop and a store that may outlive it: what it did is told to `loop`, if that is still there.
  struct Gate {
    Mutex mutex;
    DecisionLoop* loop ABSL_GUARDED_BY(mutex);
  };
  void LeaveStore();
  struct Work {
    std::vector<std::vector<Action>> durable;  // Of steps whose records are.
    std::deque<Event> events;
  };
  bool WaitForWork(Work& work);
  void Deliver(std::vector<std::vector<Action>> durable);
  std::vector<std::vector<Action>> TakeDurable();
  void CommitDone(const absl::Status& status, std::vector<Action> actions);
  void Fail(const absl::Status& status);

  const LoopOptions options_;
  const std::shared_ptr<Gate> gate_;
  uint64_t term_ = 0;

  // Of the thread that set busy_.
  Cluster cluster_;
  size_t records_since_snapshot_ = 0;
  bool SnapshotDue() const { return records_since_snapshot_ >= kRecordsPerSnapshot; }

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // A thread steps or delivers.
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<Action>> durable_ ABSL_GUARDED_BY(mutex_);  // To be delivered, in the order of their steps.
  struct InFlight {
    Monotonic since;
    bool decides;
  };
  std::deque<InFlight> in_flight_ ABSL_GUARDED_BY(mutex_);  // What was appended and is not durable yet.
  size_t decisions_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;  // Those that decide.
  bool write_now_ ABSL_GUARDED_BY(mutex_) = false;          // Of what was appended and not written, something decides.
  Monotonic write_at_ ABSL_GUARDED_BY(mutex_) = Monotonic::Infinite();    // The rest has waited long enough then.
  Monotonic loop_wakes_ ABSL_GUARDED_BY(mutex_) = Monotonic::Infinite();  // Its thread waits until then.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  // Destroyed before what its callbacks use.
  std::unique_ptr<RecordStore> store_;
  std::thread thread_;
};

}  // namespace troupe::scheduler
