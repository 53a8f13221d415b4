// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/ring_pipe.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/env/cpu_pin.h"

namespace troupe {
namespace {

// What an empty queue may keep allocated.
constexpr size_t kKeptBytes = 256 << 10;
// The other process cannot write more than this after its end was told, unless it writes on.
constexpr int kDrainRoundsMax = 256;

}  // namespace

RingPipe::RingPipe(std::unique_ptr<RingEnd> end, RingPipeOptions options, Take take)
    : end_(std::move(end)), options_(options), take_(std::move(take)) {}

bool RingPipe::Full() const {
  if (queue_sizes_.empty()) return false;
  return queue_sizes_.size() >= options_.queue_records_max || queue_.size() - queue_begin_ >= options_.queue_bytes_max;
}

size_t RingPipe::WriteFrames(std::string_view bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    std::string_view frame = bytes.substr(written, end_->frame_bytes_max());
    absl::StatusOr<bool> put = end_->Write(frame);
    if (!put.ok()) EndNow(put.status(), false);
    if (!put.ok() || !*put) break;
    written += frame.size();
  }
  return written;
}

void RingPipe::Put(std::string_view tail) {
  std::string_view head = encoded_;
  if (queue_sizes_.empty()) {
    head.remove_prefix(WriteFrames(head));
    if (head.empty()) tail.remove_prefix(WriteFrames(tail));
  }
  if (!head.empty() || !tail.empty()) {
    queue_.append(head).append(tail);
    queue_sizes_.push_back(head.size() + tail.size());
    queued_.store(true, std::memory_order_relaxed);
    if (options_.pauses && Full()) end_->SetPaused(true);
  }
  if (encoded_.capacity() > kKeptBytes) encoded_ = std::string();
}

void RingPipe::Flush() {
  if (!queued_.load(std::memory_order_relaxed)) return;
  bool written = false;
  {
    MutexLock lock(write_mutex_);
    size_t count = WriteFrames(std::string_view(queue_).substr(queue_begin_));
    written = count > 0;
    queue_begin_ += count;
    while (count > 0) {
      size_t part = std::min(count, queue_sizes_.front());
      queue_sizes_.front() -= part;
      count -= part;
      if (queue_sizes_.front() == 0) queue_sizes_.pop_front();
    }
    if (queue_sizes_.empty()) {
      queue_begin_ = 0;
      queue_.clear();
      if (queue_.capacity() > kKeptBytes) queue_ = std::string();
      queued_.store(false, std::memory_order_relaxed);
    } else if (queue_begin_ > queue_.size() / 2) {
      queue_.erase(0, queue_begin_);
      queue_begin_ = 0;
    }
    if (options_.pauses && !Full()) end_->SetPaused(false);
  }
  if (written) end_->WakePeer();
}

bool RingPipe::TakeReading() {
  MutexLock lock(reading_mutex_);
  wanted_ = wanted_ || reading_;
  if (reading_) return false;
  reading_ = true;
  end_->LeaveToNobody();
  return true;
}

void RingPipe::Sleep(uint32_t seen, Monotonic deadline, Turn turn) {
  if (!options_.shares_core) return end_->WaitForBell(seen, RingEnd::kCaller, deadline);
  if (turn == Turn::kAnswers) {
    CpuPin pin(end_->TheirCpu());
    return end_->WaitForBell(seen, RingEnd::kCaller, deadline);
  }
  if (turn == Turn::kNone) sharing_.Interrupt();
  const int cpu = sharing_.together() ? CurrentCpu() : -1;
  end_->TellCpu(cpu);
  const Monotonic begin = MonotonicNow();
  {
    CpuPin pin(cpu);
    end_->WaitForBell(seen, RingEnd::kCaller, deadline);
  }
  if (turn == Turn::kCalls) sharing_.Waited(MonotonicNow() - begin);
}

uint32_t RingPipe::Successor() {
  if (std::exchange(wanted_, false)) patrols_ = false;
  return patrols_ ? 0 : RingEnd::kReader;
}

bool RingPipe::GiveReadingBack() {
  MutexLock lock(reading_mutex_);
  reading_ = false;
  return end_->LeaveTo(Successor()) || patrols_;
}

bool RingPipe::GoToSleep() {
  MutexLock lock(reading_mutex_);
  reading_ = false;
  return end_->LeaveTo(Successor());
}

void RingPipe::ReadOnce() {
  Flush();
  if (end_->paused() || (ended_.load() && !drain_.load())) return;
  absl::Status status = end_->Read([this](std::string_view bytes) { return TakeBytes(bytes); });
  if (!status.ok()) End(status, false);
}

absl::Status RingPipe::TakeBytes(std::string_view bytes) {
  bool continued = !partial_.empty();
  if (continued) partial_.append(bytes);
  std::string_view left = continued ? std::string_view(partial_) : bytes;
  uint32_t length = 0;
  size_t whole = 0;  // Of the record that is not all there.
  while (left.size() >= sizeof(length)) {
    std::memcpy(&length, left.data(), sizeof(length));
    if (length == 0 || length > options_.record_bytes_max) {
      return absl::InvalidArgumentError("a message of " + std::to_string(length) + " bytes; 1 to " +
                                        std::to_string(options_.record_bytes_max) + " are allowed");
    }
    if (left.size() - sizeof(length) < length) {
      whole = sizeof(length) + length;
      break;
    }
    if (absl::Status taken = take_(left.substr(sizeof(length), length)); !taken.ok()) return taken;
    left.remove_prefix(sizeof(length) + length);
  }
  if (!continued) {
    partial_.reserve(whole);
    partial_.assign(left);
  } else {
    partial_.erase(0, partial_.size() - left.size());
    if (partial_.empty() && partial_.capacity() > kKeptBytes) partial_ = std::string();
  }
  return absl::OkStatus();
}

absl::Status RingPipe::Run() {
  uint64_t reads_seen = 0;
  Monotonic wakes_caller = MonotonicNow() + RingEnd::kSleepMax;
  while (true) {
    uint32_t seen = end_->bell();
    uint64_t reads = reads_by_others_.load(std::memory_order_relaxed);
    bool patrols = reads != std::exchange(reads_seen, reads);
    bool sleeps = true;
    if (TakeReading()) {
      {
        MutexLock lock(reading_mutex_);
        patrols_ = patrols;
      }
      ReadOnce();
      if (ended_.load()) break;
      // Where others read again and again it is they who spin; a third thread would take their core.
      if (!patrols && end_->Spin(options_.spin)) ReadOnce();
      sleeps = GoToSleep();
    } else {
      patrols = true;
    }
    Monotonic now = MonotonicNow();
    if (now >= wakes_caller) {
      end_->WakeOwn(RingEnd::kCaller);
      wakes_caller = now + RingEnd::kSleepMax;
    }
    if (sleeps) end_->WaitForBell(seen, RingEnd::kReader, now + (patrols ? kPatrol : RingEnd::kSleepMax));
  }
  for (int i = 0; i < kDrainRoundsMax && drain_.load() && end_->Readable(); ++i) ReadOnce();
  MutexLock lock(write_mutex_);
  return ended_why_;
}

void RingPipe::End(const absl::Status& why, bool drain) {
  MutexLock lock(write_mutex_);
  EndNow(why, drain);
}

void RingPipe::EndNow(const absl::Status& why, bool drain) {
  if (ended_.load()) {
    if (!drain) drain_ = false;
    return;
  }
  ended_why_ = why;
  drain_ = drain;
  ended_ = true;
  end_->WakeOwn(RingEnd::kReader | RingEnd::kCaller);
}

}  // namespace troupe
