// SPDX-License-Identifier: Apache-2.0
// PingPong and BareRing: the least that two threads need to wake each other and to hand messages over, in memory that
// both see.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "runtime/env/clock.h"
#include "runtime/env/futex.h"

namespace troupe::bench {

// Two words, each of which one side changes and the other waits for.
struct PingPong {
  alignas(64) std::atomic<uint32_t> ping{0};
  alignas(64) std::atomic<uint32_t> pong{0};

  // Who spins looks that often before it naps, as when the benchmark has gone on to something else.
  static constexpr int kSpinsMax = 1 << 20;
  static constexpr absl::Duration kNap = absl::Milliseconds(20);

  static void Await(std::atomic<uint32_t>& word, uint32_t old, bool spins) {
    for (int i = 0; spins && i < kSpinsMax && word.load(std::memory_order_acquire) == old; ++i) SpinPause();
    while (word.load(std::memory_order_acquire) == old) {
      FutexWait(word, old, 1, spins ? MonotonicNow() + kNap : Monotonic::Infinite());
    }
  }
  static void Step(std::atomic<uint32_t>& word, bool wakes) {
    word.fetch_add(1, std::memory_order_release);
    if (wakes) FutexWake(word, 1);
  }
  void Echo(bool spins) {
    for (uint32_t n = 0;; ++n) {
      Await(ping, n, spins);
      Step(pong, !spins);
    }
  }
  // `wakes`: the other may sleep.
  void Once(bool spins, bool wakes) {
    uint32_t seen = pong.load(std::memory_order_relaxed);
    Step(ping, wakes);
    Await(pong, seen, spins);
  }
};

// One writer, one reader.
struct BareRing {
  static constexpr size_t kMessageBytes = 64;
  static constexpr uint64_t kMessages = 4096;

  alignas(64) std::atomic<uint64_t> written{0};
  alignas(64) std::atomic<uint64_t> read{0};
  alignas(64) std::atomic<uint32_t> wakes{0};
  alignas(64) std::atomic<uint32_t> sleeps{0};
  char messages[kMessages][kMessageBytes];

  void Write(const char* message) {
    uint64_t at = written.load(std::memory_order_relaxed);
    while (at - read.load(std::memory_order_acquire) >= kMessages) SpinPause();
    std::memcpy(messages[at % kMessages], message, kMessageBytes);
    written.store(at + 1, std::memory_order_seq_cst);
    if (sleeps.load(std::memory_order_seq_cst) == 0) return;
    wakes.fetch_add(1);
    FutexWake(wakes, 1);
  }
  void ReadAll() {
    char message[kMessageBytes];
    for (uint64_t at = 0;; ++at) {
      while (written.load(std::memory_order_acquire) == at) {
        uint32_t seen = wakes.load();
        sleeps.store(1, std::memory_order_seq_cst);
        if (written.load(std::memory_order_seq_cst) == at) FutexWait(wakes, seen, 1, Monotonic::Infinite());
        sleeps.store(0, std::memory_order_relaxed);
      }
      std::memcpy(message, messages[at % kMessages], kMessageBytes);
      read.store(at + 1, std::memory_order_release);
    }
  }
};

}  // namespace troupe::bench
