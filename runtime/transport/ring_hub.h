// SPDX-License-Identifier: Apache-2.0
// RingHub: the rings of this process to others of its machine: dials, takes offers, and sees on their sockets when the
// others end. One thread watches the sockets; each pair of rings has one that reads, when nobody who waits does.
//
// An offer is taken from processes of the same user that know the token. The memory is the dialer's; it is handed over
// once, and has no name anywhere.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/executor.h"
#include "runtime/base/mutex.h"
#include "runtime/env/unix_socket.h"
#include "runtime/transport/frame_channel.h"
#include "runtime/transport/ring_pipe.h"

namespace troupe {

class RingChannel;
class RingEnd;

struct RingHubOptions {
  std::string process_name;
  std::string token;
  // Of each direction, 16 KiB to 16 MiB in whole pages. What does not fit waits in the queue.
  size_t ring_bytes = 512 << 10;
  size_t pairs_max = 256;  // To all others together: each has a thread and the memory of two rings.
  RingPipeOptions pipe;
};

class RingHub final : public IdleWork, public std::enable_shared_from_this<RingHub> {
 public:
  static std::shared_ptr<RingHub> Create(RingHubOptions options);
  // After Shutdown.
  ~RingHub();

  // Listens on that path. `accept` gives the session of a channel whose dialer was let in; null: no more are taken.
  using Accept = std::function<std::shared_ptr<EnvelopeSink>(std::shared_ptr<FrameChannel>)>;
  absl::Status Serve(const std::string& path, Accept accept);

  // Dials, on a thread of its own that then reads for `sink`. `dialed` is told there, before the first Take; when it is
  // an error the sink hears nothing.
  using Dialed = std::function<void(absl::StatusOr<std::shared_ptr<FrameChannel>>)>;
  void Dial(const std::string& path, std::shared_ptr<EnvelopeSink> sink, Dialed dialed);

  // IdleWork: takes what comes by the rings that others dialed, those on which something came last.
  bool Wait(const std::function<bool()>& done, Monotonic deadline) override;
  void Wake() override;

  // Ends every channel, and waits until its sink was told. Idempotent.
  void Shutdown();

  // Frames that could not be, and offers that were refused, since the beginning.
  uint64_t refused() const { return refused_.load(); }

 private:
  friend class RingChannel;
  struct Thread {
    std::thread thread;
    bool done = false;
  };

  explicit RingHub(RingHubOptions options) : options_(std::move(options)) {}
  // RESOURCE_EXHAUSTED: there are pairs_max. UNAVAILABLE: it is stopping.
  absl::Status StartThread(std::function<void()> work);
  absl::Status StartWatcher() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeWatcher();
  void Watch();
  void AcceptOne(UnixListener& listener);
  void Answer(UnixSocket socket);
  absl::StatusOr<UnixPacket> Receive(UnixSocket& socket);
  absl::StatusOr<std::unique_ptr<RingEnd>> TakeOffer(UnixSocket& socket);
  absl::StatusOr<std::unique_ptr<RingEnd>> Offer(UnixSocket& socket);
  // Something came on it, and on another one before.
  void SetBusy(RingChannel* channel);
  // Reads until the end.
  void Run(const std::shared_ptr<RingChannel>& channel);

  const RingHubOptions options_;
  std::atomic<uint64_t> refused_{0};

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<UnixListener> listener_ ABSL_GUARDED_BY(mutex_);
  Accept accept_ ABSL_GUARDED_BY(mutex_);
  UnixSocket wake_, woken_;  // A byte makes the watcher look again.
  std::vector<std::shared_ptr<RingChannel>> watched_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<RingChannel> busy_ ABSL_GUARDED_BY(mutex_);     // See Wait.
  std::atomic<RingChannel*> busy_now_{nullptr};                   // busy_, to compare.
  std::shared_ptr<RingChannel> idle_on_ ABSL_GUARDED_BY(mutex_);  // What Wait reads.
  std::list<Thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::thread watcher_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
