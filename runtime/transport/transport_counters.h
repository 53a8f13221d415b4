// SPDX-License-Identifier: Apache-2.0
// TransportCounters: what the connections of a process have met since its start. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace troupe {

struct TransportCounters {
  std::atomic<uint64_t> refused_frames{0};    // Frames, messages and offers of rings that could not be.
  std::atomic<uint64_t> refused_sessions{0};  // Streams of a session that is not known here (any more), or older ones.
  std::atomic<uint64_t> duplicate_frames{0};  // That came before and were dropped.
  std::atomic<uint64_t> broken{0};            // Connections that broke, of those that this process dialed,
  std::atomic<uint64_t> resumed{0};           // and of these, sessions that went on.
};

}  // namespace troupe
