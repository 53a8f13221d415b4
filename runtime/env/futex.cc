// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace troupe {
namespace {

long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* until, uint32_t bits) {
  static_assert(sizeof(word) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, until, nullptr, bits);
}

}  // namespace

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, uint32_t bits, Monotonic deadline) {
  constexpr int64_t kSecond = 1'000'000'000;
  timespec until = {static_cast<time_t>(deadline.nanoseconds() / kSecond), deadline.nanoseconds() % kSecond};
  Futex(word, FUTEX_WAIT_BITSET, seen, deadline.infinite() ? nullptr : &until, bits);
}

void FutexWake(std::atomic<uint32_t>& word, uint32_t bits) { Futex(word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, bits); }

}  // namespace troupe
