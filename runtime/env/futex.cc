// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace troupe {
namespace {

long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* until, uint32_t bits) {
  static_assert(sizeof(word) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, until, nullptr, bits);
}

void Wait(std::atomic<uint32_t>& word, int operation, uint32_t seen, uint32_t bits, Monotonic deadline) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t nanoseconds = std::max<int64_t>(deadline.nanoseconds(), 0);
  timespec until = {static_cast<time_t>(nanoseconds / kSecond), nanoseconds % kSecond};
  Futex(word, operation, seen, deadline.infinite() ? nullptr : &until, bits);
}

}  // namespace

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, uint32_t bits, Monotonic deadline) {
  Wait(word, FUTEX_WAIT_BITSET, seen, bits, deadline);
}

void FutexWake(std::atomic<uint32_t>& word, uint32_t bits) { Futex(word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, bits); }

void FutexWaitHere(std::atomic<uint32_t>& word, uint32_t seen, Monotonic deadline) {
  Wait(word, FUTEX_WAIT_BITSET_PRIVATE, seen, FUTEX_BITSET_MATCH_ANY, deadline);
}

void FutexWakeHere(std::atomic<uint32_t>& word) { Futex(word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, 0); }

}  // namespace troupe
