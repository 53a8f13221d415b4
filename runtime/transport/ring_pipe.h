// SPDX-License-Identifier: Apache-2.0
// RingPipe: records over a pair of rings, from any thread: a bounded queue for what the ring has no space for, and the
// reading, which one thread at a time does.
//
// The thread that calls Run reads, unless another one that waits for something reads instead (ReadUntil): then the
// other process wakes that thread and nobody else. Neither taking the reading over nor giving it back wakes anybody.
// When something comes between two of such reads, the thread of Run is woken for it, once: as long as others go on
// reading it then looks by itself every kPatrol, so that nobody wakes it in between. So what comes while nobody reads
// waits for that long at most.
//
// A record is a length (u32) and that many bytes; records follow each other, whatever the ring's frames are.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"
#include "runtime/transport/core_sharing.h"
#include "runtime/transport/ring.h"

namespace troupe {

struct RingPipeOptions {
  // Of what the ring has no space for: as many as a process may have open calls, and the bytes of a full mailbox. One
  // record of any size fits into an empty queue.
  size_t queue_records_max = 65'536;
  size_t queue_bytes_max = 64 << 20;
  // Of one that comes: a longer one ends the pipe. Larger payloads travel in chunks (payload_transfer.h).
  size_t record_bytes_max = 16 << 20;
  // Reads no further while the queue is over its limits: for the side that answers.
  bool pauses = false;
  // How long a thread that reads looks at the ring before it sleeps. Only where a core is free for it.
  absl::Duration spin = absl::ZeroDuration();
  // Threads that call and answer in turn sleep on one processor, where that is quicker (core_sharing.h). They may run
  // on all of theirs.
  bool shares_core = true;
};

class RingPipe {
 public:
  // Takes a record's bytes; they are good during the call. Not OK: ends the pipe with that. By one thread at a time,
  // without locks of the pipe.
  using Take = std::function<absl::Status(std::string_view record)>;

  static constexpr absl::Duration kPatrol = absl::Milliseconds(1);

  RingPipe(std::unique_ptr<RingEnd> end, RingPipeOptions options, Take take);

  // Any thread. `encode(std::string& out)` appends whole records, but for what the last one ends with, which is `tail`
  // where it is not empty; it runs under the pipe's lock, in the order of sending, and not at all when this is refused.
  // RESOURCE_EXHAUSTED: too much waits already (never with `always`). UNAVAILABLE: the pipe has ended.
  template <typename Encode>
  absl::Status Send(bool always, Encode encode, std::string_view tail = {});

  // Reads until the pipe has ended; what has come before the end is taken first. Returns why it ended. Once.
  absl::Status Run();

  // Any thread: ends it. What came before is still taken if `drain`.
  void End(const absl::Status& why, bool drain);

  // What a thread in ReadUntil waits for: the answer to the only call that it has made; the next call; else.
  enum class Turn : uint8_t { kCalls, kAnswers, kNone };

  // Reads on this thread until `done()`, asked after each look, or the deadline, or the pipe's end. False: another
  // thread reads, or the pipe has ended; nothing was waited for.
  template <typename Done>
  bool ReadUntil(Done done, Monotonic deadline, Turn turn = Turn::kNone);
  // Makes a thread in ReadUntil ask `done` again. Any thread; nothing to do on that one.
  void WakeReader() {
    if (reading_here_ != this) end_->WakeOwn(RingEnd::kCaller);
  }

  // Of the reading side alone.
  const RingRefusals& refusals() const { return end_->refusals(); }

 private:
  bool Full() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Sends encoded_ and then `tail`, as far as there is space; queues the rest.
  void Put(std::string_view tail) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // How many of the bytes went into the ring.
  size_t WriteFrames(std::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void EndNow(const absl::Status& why, bool drain) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void Flush();
  bool TakeReading();
  // The end of ReadUntil's look that found nothing: sleeps.
  void Sleep(uint32_t seen, Monotonic deadline, Turn turn);
  // `who` of the thread of Run, for LeaveTo.
  uint32_t Successor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_mutex_);
  // To the thread of Run. False: there is something to do, and it is to be woken for that.
  bool GiveReadingBack();
  // By the thread of Run, which reads: whether it may sleep until it is woken (true), or goes on.
  bool GoToSleep();
  // By the one that reads: what waits to be written, then what is there.
  void ReadOnce();
  absl::Status TakeBytes(std::string_view bytes);

  const std::unique_ptr<RingEnd> end_;
  const RingPipeOptions options_;
  const Take take_;

  Mutex write_mutex_;
  std::string encoded_ ABSL_GUARDED_BY(write_mutex_);  // Of the Send that runs.
  std::string queue_ ABSL_GUARDED_BY(write_mutex_);    // Bytes that wait, from queue_begin_ on.
  size_t queue_begin_ ABSL_GUARDED_BY(write_mutex_) = 0;
  std::deque<size_t> queue_sizes_ ABSL_GUARDED_BY(write_mutex_);  // Of what each Send left there.
  absl::Status ended_why_ ABSL_GUARDED_BY(write_mutex_);
  std::atomic<bool> queued_{false};  // The queue is not empty.
  std::atomic<bool> ended_{false};
  std::atomic<bool> drain_{true};

  Mutex reading_mutex_;
  bool reading_ ABSL_GUARDED_BY(reading_mutex_) = false;
  // While others read in turns, the thread of Run looks every now and then instead of being woken: see Run.
  bool patrols_ ABSL_GUARDED_BY(reading_mutex_) = false;
  // Somebody would have read and could not; it sleeps now, and must not wait for a patrol.
  bool wanted_ ABSL_GUARDED_BY(reading_mutex_) = false;
  std::atomic<uint64_t> reads_by_others_{0};
  static inline thread_local const RingPipe* reading_here_ = nullptr;
  // Of the one that reads:
  std::string partial_;  // The beginning of a record.
  CoreSharing sharing_;
};

template <typename Encode>
absl::Status RingPipe::Send(bool always, Encode encode, std::string_view tail) {
  {
    MutexLock lock(write_mutex_);
    if (ended_.load(std::memory_order_relaxed)) return absl::UnavailableError("the connection has just ended");
    if (!always && Full()) return absl::ResourceExhaustedError("the queue to the other process is full");
    encoded_.clear();
    encode(encoded_);
    Put(tail);
  }
  end_->WakePeer();
  return absl::OkStatus();
}

template <typename Done>
bool RingPipe::ReadUntil(Done done, Monotonic deadline, Turn turn) {
  if (!TakeReading()) return false;
  const RingPipe* before = std::exchange(reading_here_, this);
  while (true) {
    uint32_t seen = end_->bell();  // Before `done` is asked: who wakes this thread later changes it.
    ReadOnce();
    if (done() || ended_.load() || HasPassed(deadline)) break;
    if (end_->Spin(options_.spin) || !end_->LeaveTo(RingEnd::kCaller)) continue;
    Sleep(seen, deadline, turn);
    end_->LeaveToNobody();
  }
  reading_here_ = before;
  reads_by_others_.fetch_add(1, std::memory_order_relaxed);
  if (!GiveReadingBack() || ended_.load()) end_->WakeOwn(RingEnd::kReader);
  return true;
}

}  // namespace troupe
