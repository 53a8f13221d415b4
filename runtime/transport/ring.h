// SPDX-License-Identifier: Apache-2.0
// Two rings of bytes in memory that two processes share, one each way. A RingEnd is one process' end: it writes frames
// into its own ring and reads those of the other. The rings carry bytes in order; what the bytes mean, and where a
// message that spans frames ends, is decided above (envelope_codec.h).
//
// The other process can write all of the memory at any time. So each field is read once into private memory, checked,
// and used from there; a frame is copied out before its checksum is looked at. Whatever stands in the memory, a call
// returns, and returns either what was written or an error.
//
// Memory: RingLayout, then the bytes of side 0's ring, then those of side 1's. A frame:
//   length u32 | crc u32 | sequence u64 | epoch u64 | bytes, padded to 8
// The checksum (CRC-32C) is over all but itself and the padding; the sequence counts from 1; the epoch is that of the
// pair. Little-endian, as both are the same machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/monotonic.h"
#include "runtime/env/shared_memory.h"

namespace troupe {

// A multiple of 4096, so that both rings begin on pages of their own.
inline constexpr size_t kRingBytesMin = 16 << 10;
inline constexpr size_t kRingBytesMax = 16 << 20;
inline constexpr size_t kRingFrameHeaderBytes = 24;

// Why a frame was refused.
struct RingRefusals {
  uint64_t cut = 0;       // Less is there than the frame says, or more than a frame may have.
  uint64_t flipped = 0;   // The checksum is another.
  uint64_t replayed = 0;  // Out of sequence.
  uint64_t stale = 0;     // Of another epoch.
  uint64_t counters = 0;  // What was written and read cannot be.
  uint64_t total() const { return cut + flipped + replayed + stale + counters; }
};

class RingEnd {
 public:
  // Bits that tell sleepers of one end apart; at any time one of them is the one to be woken.
  static constexpr uint32_t kReader = 1;  // The thread whose work is reading.
  static constexpr uint32_t kCaller = 2;  // A thread that waits for an answer and reads meanwhile.
  // The other side could change the bell between our look and our sleep, and so make us miss a wake: no sleep is
  // longer.
  static constexpr absl::Duration kSleepMax = absl::Seconds(10);

  static size_t MemoryBytes(size_t ring_bytes);
  // Side 0, which sets up the memory (of MemoryBytes(ring_bytes)).
  static std::unique_ptr<RingEnd> Create(SharedMemory memory, size_t ring_bytes, uint64_t epoch);
  // Side 1. INVALID_ARGUMENT: what stands in the memory is not what was announced.
  static absl::StatusOr<std::unique_ptr<RingEnd>> Join(SharedMemory memory, size_t ring_bytes, uint64_t epoch);

  // --- Writing: one thread at a time. ---

  // The most that Write takes at once.
  size_t frame_bytes_max() const { return std::min(kFrameBytesMax, ring_bytes_ / 4); }
  // Puts a frame into the ring; not empty. False: there is no space now; once there is, this end is woken to try again.
  // DATA_LOSS: the other side's counters cannot be; nothing more can be written.
  absl::StatusOr<bool> Write(std::string_view bytes);

  // --- Reading: one thread at a time. ---

  // Whether Read would find something. Any thread.
  bool Readable() const;
  // Calls `take` with the bytes of each frame that is there, at most kReadBytes of them; they are good during the call.
  // What `take` returns, if not OK, ends it. DATA_LOSS: a frame that cannot be (see refusals); the ring is not to be
  // read any further.
  template <typename Take>
  absl::Status Read(Take take);
  const RingRefusals& refusals() const { return refusals_; }

  // --- Waking. Of the thread that reads, but for WakePeer, WakeOwn and SetPaused. ---

  // Wakes the other end if it sleeps. After writes; any thread.
  void WakePeer();
  // Sleeps as `who` until the other end has written, or made space that was asked for, or WakeOwn(who), or the
  // deadline. May return early.
  void Sleep(uint32_t who, Monotonic deadline);
  // Looks for at most `spin`: whether there is something to do.
  bool Spin(absl::Duration spin) const;
  // Says that `who` sleeps now, or will without a further look, and is to be woken; 0: nobody. False: there is
  // something to do.
  bool LeaveTo(uint32_t who);
  // LeaveTo(0), of one that looks anyway.
  void LeaveToNobody() {
    if (mine_.asleep.load(std::memory_order_relaxed) != 0) mine_.asleep.store(0, std::memory_order_relaxed);
  }
  // The second half of Sleep: for the one that LeaveTo named. `seen`: bell() before LeaveTo. The other side can make it
  // miss a wake, so somebody has to WakeOwn(who) every kSleepMax; without a deadline it costs half of one with.
  uint32_t bell() const { return mine_.bell.load(std::memory_order_seq_cst); }
  void WaitForBell(uint32_t seen, uint32_t who, Monotonic deadline);
  // On which processor the other end's reader had best sleep too; negative: it does not matter. What the other one says
  // may be anything.
  void TellCpu(int cpu) {
    const auto told = static_cast<uint32_t>(cpu + 1);
    if (mine_.cpu.load(std::memory_order_relaxed) != told) mine_.cpu.store(told, std::memory_order_relaxed);
  }
  int TheirCpu() const { return static_cast<int>(theirs_.cpu.load(std::memory_order_relaxed)) - 1; }
  void WakeOwn(uint32_t who);
  // What there is to read is nothing to do now. Any thread.
  void SetPaused(bool paused) { paused_.store(paused, std::memory_order_seq_cst); }
  bool paused() const { return paused_.load(std::memory_order_relaxed); }

 private:
  struct Side {
    alignas(64) std::atomic<uint64_t> written;  // Bytes ever, into its own ring.
    alignas(64) std::atomic<uint64_t> read;     // Bytes ever, out of the other's.
    alignas(64) std::atomic<uint32_t> bell;     // Counts wakes of this side; it sleeps on it.
    std::atomic<uint32_t> asleep;               // Who of this side is to be woken; 0: nobody sleeps.
    std::atomic<uint32_t> wants_space;          // Its writer waits for the other to read.
    std::atomic<uint32_t> cpu;                  // 1 + the processor that it sleeps on; 0: on any.
  };
  struct Layout {
    uint64_t magic;
    uint64_t ring_bytes;
    uint64_t epoch;
    Side sides[2];
  };
  struct Header {
    uint32_t length;
    uint32_t crc;
    uint64_t sequence;
    uint64_t epoch;
  };
  static_assert(sizeof(Header) == kRingFrameHeaderBytes);
  // A message that is longer takes several frames.
  static constexpr size_t kFrameBytesMax = 64 << 10;
  // What Read copies at once: some frames.
  static constexpr size_t kReadBytes = 256 << 10;
  static constexpr uint64_t kMagic = 0x326e695270756f72u;

  RingEnd(SharedMemory memory, size_t ring_bytes, uint64_t epoch, int side);
  static uint32_t CrcOf(const Header& header, std::string_view bytes);
  bool HasWork() const;
  // Copies what is there into copy_: how many bytes, and whether it is all of it.
  absl::StatusOr<std::pair<size_t, bool>> CopyOut();
  // The frame at `at` of the `left` bytes there. 0: it goes on beyond what was copied.
  absl::StatusOr<size_t> CheckFrame(const char* at, size_t left, bool all, std::string_view& bytes);
  absl::Status Refuse(uint64_t& counter, const std::string& why);
  void Consumed(size_t bytes);

  const SharedMemory memory_;
  const size_t ring_bytes_;
  const uint64_t epoch_;
  Layout& layout_;
  Side& mine_;
  Side& theirs_;
  char* const own_ring_;
  char* const their_ring_;

  // Of the writer.
  uint64_t written_ = 0;
  uint64_t their_read_ = 0;
  uint64_t next_written_sequence_ = 1;
  std::atomic<bool> blocked_{false};  // Waits for space.

  // Of the reader.
  std::atomic<uint64_t> read_{0};  // Readable looks at it from any thread.
  std::atomic<bool> paused_{false};
  uint64_t next_read_sequence_ = 1;
  const std::unique_ptr<char[]> copy_;
  RingRefusals refusals_;
};

template <typename Take>
absl::Status RingEnd::Read(Take take) {
  auto copied = CopyOut();
  if (!copied.ok()) return copied.status();
  auto [left, all] = *copied;
  const char* at = copy_.get();
  absl::Status status;
  while (left > 0 && status.ok()) {
    std::string_view bytes;
    absl::StatusOr<size_t> frame = CheckFrame(at, left, all, bytes);
    if (!frame.ok()) return frame.status();
    if (*frame == 0) break;
    status = take(bytes);
    at += *frame;
    left -= *frame;
  }
  Consumed(static_cast<size_t>(at - copy_.get()));
  return status;
}

}  // namespace troupe
