// SPDX-License-Identifier: Apache-2.0
// RingHub: the rings of this process to others of its machine: dials, takes offers, and sees on their sockets when the
// others end. One thread watches the sockets; each pair of rings has one that reads, when nobody who waits does.
//
// An offer is taken from processes of the same user that know the token. The memory is the dialer's; it is handed over
// once, and has no name anywhere.
//
// A socket that breaks is no end of the rings: what is in them stays, and goes on. The dialer connects again and names
// their epoch; nobody listens there any more when the other process has ended. That one waits for the dialer as long as
// its process lives, up to `session_timeout`.
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
#include "runtime/transport/transport_counters.h"

namespace troupe {

class RingChannel;
class RingEnd;
struct RingOffer;

struct RingHubOptions {
  std::string process_name;
  std::string token;
  // Of each direction, 16 KiB to 16 MiB in whole pages. What does not fit waits in the queue.
  size_t ring_bytes = 512 << 10;
  // To all others together: each has a thread and the memory of two rings, and for a moment a second thread when its
  // socket broke.
  size_t pairs_max = 256;
  absl::Duration session_timeout = absl::Seconds(10);
  std::shared_ptr<TransportCounters> counters = std::make_shared<TransportCounters>();
  RingPipeOptions pipe;
};

class RingHub final : public IdleWork, public std::enable_shared_from_this<RingHub> {
 public:
  static std::shared_ptr<RingHub> Create(RingHubOptions options);
  // After Shutdown.
  ~RingHub();

  // Listens on that path. `accept` gives the session of a channel whose dialer, of that name, was let in; null: no more
  // are taken.
  using Accept =
      std::function<std::shared_ptr<EnvelopeSink>(std::shared_ptr<FrameChannel>, const std::string& process)>;
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
  uint64_t refused() const { return options_.counters->refused_frames.load(); }

 private:
  friend class RingChannel;
  struct Thread {
    std::thread thread;
    bool pair = false;  // It dials or reads one.
    bool done = false;
  };

  // A process that is stopped or hangs does not answer; gRPC is tried instead.
  static constexpr absl::Duration kHandshakeTimeout = absl::Seconds(2);

  explicit RingHub(RingHubOptions options) : options_(std::move(options)) {}
  static absl::Status CheckUser(const UnixSocket& socket);
  static absl::StatusOr<UnixPacket> TakePacket(UnixSocket& socket, Monotonic deadline);
  static void Tell(UnixSocket& socket, const absl::Status& status);
  // RESOURCE_EXHAUSTED: there are too many, or the system gives no more. UNAVAILABLE: it is stopping.
  absl::Status StartThread(bool pair, std::function<void(Thread&)> work);
  // For a thread that is about to have a pair. RESOURCE_EXHAUSTED: there are pairs_max.
  absl::Status CheckPairs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BecomePair(Thread& thread);
  absl::Status StartWatcher() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeWatcher();
  void Watch();
  void AcceptOne(UnixListener& listener);
  void Answer(UnixSocket socket, Thread& thread);
  absl::StatusOr<UnixPacket> Receive(UnixSocket& socket, absl::Duration timeout = kHandshakeTimeout);
  // What came on the socket beside the rings of the channel: a farewell, or its break.
  void Hear(const std::shared_ptr<RingChannel>& channel);
  // Of a channel that this process dialed, on a thread of its own.
  void Redial(const std::shared_ptr<RingChannel>& channel);
  // False: the other process did not answer.
  absl::StatusOr<bool> OfferAgain(const std::shared_ptr<RingChannel>& channel, absl::Duration timeout);
  // Of one that another process dialed: waits for it.
  void Detach(const std::shared_ptr<RingChannel>& channel);
  void EndDetached(Monotonic now);
  // That process is there again. ABORTED: no rings of that epoch wait for it.
  absl::Status Reattach(UnixSocket& socket, uint64_t epoch);
  // False: it has ended.
  bool Watch(const std::shared_ptr<RingChannel>& channel, UnixSocket& socket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RingOffer> TakeOffer(UnixSocket& socket, std::vector<UniqueFd>& fds);
  absl::StatusOr<std::unique_ptr<RingEnd>> TakeRings(const RingOffer& offer, std::vector<UniqueFd> fds);
  absl::StatusOr<std::unique_ptr<RingEnd>> Offer(UnixSocket& socket, uint64_t epoch);
  // Something came on it, and on another one before.
  void SetBusy(RingChannel* channel);
  // Reads until the end.
  void Run(const std::shared_ptr<RingChannel>& channel);

  const RingHubOptions options_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<UnixListener> listener_ ABSL_GUARDED_BY(mutex_);
  Accept accept_ ABSL_GUARDED_BY(mutex_);
  UnixSocket wake_, woken_;  // A byte makes the watcher look again.
  std::vector<std::shared_ptr<RingChannel>> watched_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<RingChannel>> detached_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<RingChannel> busy_ ABSL_GUARDED_BY(mutex_);     // See Wait.
  std::atomic<RingChannel*> busy_now_{nullptr};                   // busy_, to compare.
  std::shared_ptr<RingChannel> idle_on_ ABSL_GUARDED_BY(mutex_);  // What Wait reads.
  std::list<Thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::thread watcher_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
