// SPDX-License-Identifier: Apache-2.0
// Machine: what this machine does by itself for the kinds of work that actors and objects need: the limits that their
// figures stand beside. All without the runtime. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/env/shared_memory.h"
#include "runtime/env/unique_fd.h"
#include "tools/bench/far_side.h"
#include "tools/bench/meter.h"

namespace troupe::bench {

class Machine {
 public:
  // Starts the other process of the round trips. While this one has one thread.
  static absl::StatusOr<std::unique_ptr<Machine>> Start();

  // To another process and back, in microseconds. The limits hold this object.
  Limit FutexRoundTrip() const;   // Both sleep.
  Limit SpinRoundTrip() const;    // Both look all the time.
  Limit SocketRoundTrip() const;  // 64 bytes each way over a Unix socket.
  Limit TcpRoundTrip() const;     // The same over TCP on the loopback device.
  // 64 bytes one way through a bare ring in shared memory, whose reader sleeps when it is empty; messages a second.
  Limit RingMessages() const;

  // Two threads of one process that wake each other; microseconds.
  static Limit ThreadRoundTrip();
  // From `blocks` blocks in turn into as many others, all touched before; GB/s.
  static Limit Memcpy(int64_t block_bytes, int blocks);
  // From a SIGKILL to the end of the wait for the process; milliseconds.
  static Limit ProcessEnd();
  // A program from its start to its exit; milliseconds.
  static Limit ProgramRun(std::vector<std::string> argv, const std::string& name);
  // `folder`: where four KiB are appended to a file and made durable; milliseconds.
  static Limit Commit(const std::string& folder);

  // "AMD EPYC, 2 processors, Linux 6.1.0": for people.
  static std::string Describe();

 private:
  struct Shared;
  Machine() = default;
  void Serve(int listener, int socket) const;

  SharedMemory memory_;
  Shared* shared_ = nullptr;
  UniqueFd socket_, tcp_;
  std::unique_ptr<FarSide> far_side_;
};

}  // namespace troupe::bench
