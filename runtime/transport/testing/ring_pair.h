// SPDX-License-Identifier: Apache-2.0
// Both ends of a pair of rings in one process, for tests.
#pragma once

#include <fcntl.h>

#include <memory>
#include <utility>

#include "runtime/transport/ring.h"

namespace troupe::testing {

struct RingPair {
  static constexpr uint64_t kEpoch = 0x1234'5678'9abc'def0u;

  explicit RingPair(size_t ring_bytes = kRingBytesMin) {
    SharedMemory memory = SharedMemory::Create("ring-test", RingEnd::MemoryBytes(ring_bytes)).value();
    int copy = ::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0);
    raw = reinterpret_cast<char*>(memory.data());
    a = RingEnd::Create(std::move(memory), ring_bytes, kEpoch);
    SharedMemory other = SharedMemory::Map(UniqueFd(copy), RingEnd::MemoryBytes(ring_bytes)).value();
    b = RingEnd::Join(std::move(other), ring_bytes, kEpoch).value();
  }

  char* raw;  // The memory; a's mapping of it.
  std::unique_ptr<RingEnd> a, b;
};

}  // namespace troupe::testing
