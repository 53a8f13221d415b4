// SPDX-License-Identifier: Apache-2.0
// Waits on a word of memory (Linux's futex, on the steady clock).
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/monotonic.h"

namespace troupe {

// Sleeps while `word`, which processes share, holds `seen`, until a FutexWake that has one of `bits`, or the deadline.
// May return early.
void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, uint32_t bits, Monotonic deadline);

// Wakes those who sleep on `word` with one of `bits`, in this process and in others.
void FutexWake(std::atomic<uint32_t>& word, uint32_t bits);

// The same for a word of this process alone, which is cheaper. The word may be gone when it is waked.
void FutexWaitHere(std::atomic<uint32_t>& word, uint32_t seen, Monotonic deadline);
void FutexWakeHere(std::atomic<uint32_t>& word);

// Tells the processor that this thread spins.
inline void SpinPause() { __builtin_ia32_pause(); }

}  // namespace troupe
