// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/ring.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/crc32c.h"
#include "runtime/env/clock.h"
#include "runtime/env/futex.h"

namespace troupe {
namespace {

constexpr size_t kPageBytes = 4096;
size_t Padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// Into and out of a ring, around its end.
void CopyIn(char* ring, size_t ring_bytes, uint64_t position, const char* from, size_t count) {
  size_t at = position % ring_bytes;
  size_t first = std::min(count, ring_bytes - at);
  std::memcpy(ring + at, from, first);
  std::memcpy(ring, from + first, count - first);
}

}  // namespace

size_t RingEnd::MemoryBytes(size_t ring_bytes) {
  static_assert(sizeof(Layout) <= kPageBytes);
  return kPageBytes + 2 * ring_bytes;
}

RingEnd::RingEnd(SharedMemory memory, size_t ring_bytes, uint64_t epoch, int side)
    : memory_(std::move(memory)),
      ring_bytes_(ring_bytes),
      epoch_(epoch),
      layout_(*reinterpret_cast<Layout*>(memory_.data())),
      mine_(layout_.sides[side]),
      theirs_(layout_.sides[1 - side]),
      own_ring_(reinterpret_cast<char*>(memory_.data()) + kPageBytes + static_cast<size_t>(side) * ring_bytes),
      their_ring_(reinterpret_cast<char*>(memory_.data()) + kPageBytes + static_cast<size_t>(1 - side) * ring_bytes),
      copy_(new char[std::min(kReadBytes, ring_bytes)]) {
  TROUPE_CHECK(ring_bytes % kPageBytes == 0 && ring_bytes >= kRingBytesMin && ring_bytes <= kRingBytesMax &&
                   memory_.size() == MemoryBytes(ring_bytes),
               "a ring has the size of its memory");
}

std::unique_ptr<RingEnd> RingEnd::Create(SharedMemory memory, size_t ring_bytes, uint64_t epoch) {
  auto* layout = new (memory.data()) Layout{};
  layout->magic = kMagic;
  layout->ring_bytes = ring_bytes;
  layout->epoch = epoch;
  return std::unique_ptr<RingEnd>(new RingEnd(std::move(memory), ring_bytes, epoch, 0));
}

absl::StatusOr<std::unique_ptr<RingEnd>> RingEnd::Join(SharedMemory memory, size_t ring_bytes, uint64_t epoch) {
  if (ring_bytes % kPageBytes != 0 || ring_bytes < kRingBytesMin || ring_bytes > kRingBytesMax) {
    return absl::InvalidArgumentError("a ring has " + std::to_string(kRingBytesMin) + " to " +
                                      std::to_string(kRingBytesMax) + " bytes in whole pages, not " +
                                      std::to_string(ring_bytes));
  }
  if (memory.size() != MemoryBytes(ring_bytes)) {
    return absl::InvalidArgumentError("the memory of the rings has " + std::to_string(memory.size()) + " bytes, not " +
                                      std::to_string(MemoryBytes(ring_bytes)));
  }
  const auto& layout = *reinterpret_cast<const Layout*>(memory.data());
  if (layout.magic != kMagic || layout.ring_bytes != ring_bytes || layout.epoch != epoch) {
    return absl::InvalidArgumentError("what stands at the head of the rings' memory is not what was announced");
  }
  return std::unique_ptr<RingEnd>(new RingEnd(std::move(memory), ring_bytes, epoch, 1));
}

uint32_t RingEnd::CrcOf(const Header& header, std::string_view bytes) {
  Header summed = header;
  summed.crc = 0;
  uint32_t crc = Crc32c({reinterpret_cast<const char*>(&summed), sizeof(summed)});
  return Crc32c(bytes, crc);
}

absl::StatusOr<bool> RingEnd::Write(std::string_view bytes) {
  TROUPE_CHECK(!bytes.empty() && bytes.size() <= frame_bytes_max(), "a frame is neither empty nor too long");
  size_t needed = sizeof(Header) + Padded(bytes.size());
  for (bool asked = false; ring_bytes_ - (written_ - their_read_) < needed; asked = true) {
    uint64_t read = theirs_.read.load(std::memory_order_seq_cst);
    if (read < their_read_ || read > written_) {
      return absl::DataLossError("the other process says that it has read " + std::to_string(read) + " of " +
                                 std::to_string(written_) + " bytes");
    }
    their_read_ = read;
    if (ring_bytes_ - (written_ - their_read_) >= needed) break;
    blocked_.store(true, std::memory_order_seq_cst);
    if (asked) return false;
    mine_.wants_space.store(1, std::memory_order_seq_cst);
  }
  if (blocked_.load(std::memory_order_relaxed)) blocked_.store(false, std::memory_order_relaxed);
  Header header = {static_cast<uint32_t>(bytes.size()), 0, next_written_sequence_++, epoch_};
  header.crc = CrcOf(header, bytes);
  CopyIn(own_ring_, ring_bytes_, written_, reinterpret_cast<const char*>(&header), sizeof(header));
  CopyIn(own_ring_, ring_bytes_, written_ + sizeof(header), bytes.data(), bytes.size());
  written_ += needed;
  mine_.written.store(written_, std::memory_order_seq_cst);  // Before the look whether the peer sleeps.
  return true;
}

bool RingEnd::Readable() const {
  return theirs_.written.load(std::memory_order_seq_cst) != read_.load(std::memory_order_relaxed);
}

absl::StatusOr<std::pair<size_t, bool>> RingEnd::CopyOut() {
  uint64_t written = theirs_.written.load(std::memory_order_acquire);
  uint64_t read = read_.load(std::memory_order_relaxed);
  if (written < read || written - read > ring_bytes_) {
    ++refusals_.counters;
    return absl::DataLossError("the other process says that it has written " + std::to_string(written) +
                               " bytes, and " + std::to_string(read) + " were read of a ring of " +
                               std::to_string(ring_bytes_));
  }
  size_t count = std::min<size_t>(written - read, std::min(kReadBytes, ring_bytes_));
  size_t at = read % ring_bytes_;
  size_t first = std::min(count, ring_bytes_ - at);
  std::memcpy(copy_.get(), their_ring_ + at, first);
  std::memcpy(copy_.get() + first, their_ring_, count - first);
  return std::make_pair(count, count == written - read);
}

absl::Status RingEnd::Refuse(uint64_t& counter, const std::string& why) {
  ++counter;
  return absl::DataLossError("frame " + std::to_string(next_read_sequence_) + " of the ring " + why);
}

absl::StatusOr<size_t> RingEnd::CheckFrame(const char* at, size_t left, bool all, std::string_view& bytes) {
  Header header;
  if (left < sizeof(header)) {
    if (!all) return 0;
    return Refuse(refusals_.cut, "is cut within its head");
  }
  std::memcpy(&header, at, sizeof(header));
  if (header.length == 0 || header.length > frame_bytes_max()) {
    return Refuse(refusals_.cut, "says that it has " + std::to_string(header.length) + " bytes; 1 to " +
                                     std::to_string(frame_bytes_max()) + " are allowed");
  }
  size_t needed = sizeof(header) + Padded(header.length);
  if (needed > left) {
    if (!all) return 0;
    return Refuse(refusals_.cut, "is cut: " + std::to_string(left) + " of " + std::to_string(needed) + " bytes");
  }
  bytes = {at + sizeof(header), header.length};
  if (header.crc != CrcOf(header, bytes)) return Refuse(refusals_.flipped, "has another checksum than it says");
  if (header.epoch != epoch_) return Refuse(refusals_.stale, "is of another epoch");
  if (header.sequence != next_read_sequence_) {
    return Refuse(refusals_.replayed, "has the number " + std::to_string(header.sequence));
  }
  ++next_read_sequence_;
  return needed;
}

void RingEnd::Consumed(size_t bytes) {
  uint64_t read = read_.load(std::memory_order_relaxed) + bytes;
  read_.store(read, std::memory_order_relaxed);
  mine_.read.store(read, std::memory_order_seq_cst);
  if (theirs_.wants_space.load(std::memory_order_seq_cst) != 0 && theirs_.wants_space.exchange(0) != 0) WakePeer();
}

void RingEnd::WakePeer() {
  if (theirs_.asleep.load(std::memory_order_seq_cst) == 0) return;
  uint32_t who = theirs_.asleep.exchange(0, std::memory_order_seq_cst);
  if (who == 0) return;
  theirs_.bell.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(theirs_.bell, who);
}

bool RingEnd::HasWork() const {
  bool space_came = blocked_.load(std::memory_order_seq_cst) && mine_.wants_space.load(std::memory_order_seq_cst) == 0;
  return space_came || (!paused() && Readable());
}

bool RingEnd::Spin(absl::Duration spin) const {
  if (spin <= absl::ZeroDuration()) return false;
  for (Monotonic end = MonotonicNow() + spin; MonotonicNow() < end;) {
    for (int i = 0; i < 32; ++i) {
      if (HasWork()) return true;
      SpinPause();
    }
  }
  return false;
}

void RingEnd::Sleep(uint32_t who, Monotonic deadline) {
  uint32_t seen = bell();
  if (!LeaveTo(who)) return;
  WaitForBell(seen, who, std::min(deadline, MonotonicNow() + kSleepMax));
  LeaveToNobody();
}

bool RingEnd::LeaveTo(uint32_t who) {
  // The other side looks at it after each of its writes: what is there already is not written once more.
  if (mine_.asleep.load(std::memory_order_seq_cst) != who) mine_.asleep.store(who, std::memory_order_seq_cst);
  return !HasWork();
}

void RingEnd::WaitForBell(uint32_t seen, uint32_t who, Monotonic deadline) {
  FutexWait(mine_.bell, seen, who, deadline);
}

void RingEnd::WakeOwn(uint32_t who) {
  mine_.bell.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(mine_.bell, who);
}

}  // namespace troupe
