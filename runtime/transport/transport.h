// SPDX-License-Identifier: Apache-2.0
// Transport: carries the calls of this process to actors, here or in other processes, and takes the calls of others.
//
// Within the process a call goes to the actor's mailbox. To another process there is one stream per endpoint, opened by
// the first call and kept: shared-memory rings to a process of the same node ("unix:" endpoints), a gRPC stream to
// others, and where rings cannot be had. When its connection breaks the session goes on over the next one: calls in
// flight notice nothing. When that is not possible within `session_timeout`, or the other process is gone, they end
// with CALL_UNAVAILABLE, and the next call dials anew. Deadlines are kept on both sides: here a timer answers and
// withdraws the call, there it is not begun when its time, counted from its arrival, is over or the withdrawal has
// come. So one that was long on its way still runs only if its turn comes before the withdrawal, which is right behind
// it. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/actor/actor_host.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/death_book.h"
#include "runtime/base/mutex.h"
#include "runtime/rpc/security.h"
#include "runtime/transport/call_routes.h"
#include "runtime/transport/call_table.h"
#include "runtime/transport/circle_finder.h"
#include "runtime/transport/frame_session.h"
#include "runtime/transport/payload_transfer.h"
#include "runtime/transport/transport_counters.h"

namespace grpc {
class Service;
}

namespace troupe {

class CallReceiver;
class ClientStream;
struct Envelope;
class RingHub;
class TransportService;

struct TransportOptions {
  std::string process_name;  // "job/role/replica#incarnation", or what people know the process by. Not empty.
  RpcSecurity security;
  // Of one call's arguments or result; what is larger is refused. Tensors and objects count as refs.
  size_t payload_bytes_max = 1 << 30;
  // A payload beyond it travels in chunks, so that small ones to others pass it by.
  size_t whole_payload_bytes_max = 2 << 20;
  CallTableLimits calls;
  FrameLimits frames;
  // Shared-memory rings to processes of the same node. The bytes are those of one direction; the spin is how long who
  // waits looks at the ring before it sleeps, which pays only where a core is free for it.
  bool rings = true;
  size_t ring_bytes = 512 << 10;
  absl::Duration ring_spin = absl::ZeroDuration();
  // As RingPipeOptions::shares_core.
  bool ring_shares_core = true;
  // For which a session whose connection broke waits for the next one, here and at the other process.
  absl::Duration session_timeout = absl::Seconds(10);
  // Told, in a line, when rings were wanted and gRPC is used instead, and when a connection broke or went on, and why.
  // Any thread; must not call back.
  std::function<void(const std::string&)> log;
};

class Transport : public CallRouter, public std::enable_shared_from_this<Transport> {
 public:
  // `host` holds the actors of this process and outlives the transport.
  static std::shared_ptr<Transport> Create(TransportOptions options, ActorHost& host);
  // After Shutdown.
  ~Transport() override;

  // To be served by this process' RpcServer, so that others can call its actors.
  grpc::Service* service();

  // So that processes of this node reach it by rings: listens beside the Unix socket of that endpoint ("unix:/path").
  // Before others learn of the endpoint; once. They use gRPC when this fails, or was not called. Nothing happens
  // where rings are not wanted, or for another endpoint. Errors as of UnixListener::Listen.
  absl::Status ServeRings(const std::string& endpoint);

  // For one executor of the process: its actor's, or the one that its actors share, when others call them by rings.
  // Null without rings.
  std::shared_ptr<IdleWork> idle_work() const;

  // Calls to actors of this process go to their mailboxes without the transport, where the method allows it.
  ActorPlace Locate(ActorAddress address) const override;
  std::vector<Connection> Connections() const override;
  // Since the beginning.
  const TransportCounters& counters() const { return *counters_; }

  uint64_t Call(const ActorAddress& target, OutgoingCall&& call) override;
  absl::Status Send(const ActorAddress& target, std::string method, std::string arguments) override;
  void Cancel(uint64_t call) override;
  void Grant(uint64_t call, size_t items, size_t bytes) override;
  void WaitReading(uint64_t call, internal::FutureBase& future, Monotonic deadline) override;
  uint64_t Watch(const ActorAddress& target, EndedCallback ended) override;
  void Unwatch(uint64_t watch) override;

  // That life (and those before it) has ended: open calls to it end with CALL_DIED, later ones fail at once, watchers
  // are told. Of a life in this process: before its host forgets it or has the next one.
  void MarkDead(const ActorLife& life, const v1::ExitCause& cause);

  // Ends every open call with CALL_UNAVAILABLE, every stream, and takes no more. Idempotent. Before
  // RpcServer::Shutdown.
  void Shutdown();

  // Calls without an answer yet.
  size_t open_calls() const;

 private:
  Transport(TransportOptions options, ActorHost& host);
  std::unique_ptr<TransportService> MakeService();
  TransferLimits Transfers() const;
  void List(v1::ListConnectionsResponse& response) const;
  // How a call goes: to a mailbox of this process, or on a stream.
  struct Way {
    std::shared_ptr<const CallRoute> route;
    std::shared_ptr<ClientStream> stream;  // Null: the target lives here.
  };
  // One of the last calls to other processes, which the next ones often take too: it is not looked up then.
  struct KnownWay {
    Way way;
    std::string endpoint;
    uint64_t added_here = 0;  // As of ActorHost::added, when it was found.

    bool Leads(const ActorAddress& target, std::string_view method, uint64_t added) const {
      return way.stream != nullptr && added_here == added && way.route->method == method &&
             way.route->target == target.life && endpoint == target.endpoint;
    }
  };
  // Not OK: the call is refused with that.
  absl::Status FindWay(const ActorAddress& target, std::string_view method, size_t bytes, Way& way)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refuse(const ActorAddress& target) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<ClientStream> StreamTo(const ActorAddress& target, bool patient = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends again those of `calls` that may be, in their order and before any later call; leaves the others.
  void SendAgain(std::vector<OpenCall>& calls, const std::string& endpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndRedials(Monotonic now);
  void EndDetached(Monotonic now);
  bool IsHere(const ActorAddress& target) const;
  // Of a call that is not open any more, and whose answer nobody waits for: its stream ends, it is not begun, and is
  // not remembered there.
  void Abandon(const OpenCall& call);
  // Of one that may be sent again: that it will not be.
  void Acknowledge(const OpenCall& call);
  RepeatKey KeyOf(uint64_t call, const ClientStream& stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null when it has ended.
  std::shared_ptr<ClientStream> StreamOf(const OpenCall& call) const;
  std::shared_ptr<ClientStream> OpenStream(uint64_t id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeItem(Envelope&& item);
  void Complete(uint64_t id, absl::StatusOr<std::string> result);
  void StreamBroken(uint64_t stream, const std::string& endpoint, const absl::Status& why);
  void StreamEnded(uint64_t stream, const std::string& endpoint, bool greeted, const absl::Status& status);
  void RunTimer();
  // A call within the process has a deadline before others.
  void LookAtTimer();

  // Circles of waits (transport_circles.cc).
  void WatchWaits();
  void LookForCircles(Monotonic now);
  absl::Status TakeProbe(uint64_t session, const std::string& bytes);
  absl::Status TakeConfirm(const std::string& bytes);
  void Do(CircleFinder::Actions actions);

  std::shared_ptr<ClientStream> OpenStreamTo(const ActorAddress& target, uint64_t id, bool patient);

  // While actors wait for others they are looked at so often: what lasts shorter costs nothing.
  static constexpr absl::Duration kCircleTick = absl::Milliseconds(100);

  const TransportOptions options_;
  const uint64_t caller_id_;  // Of repeat keys.
  const std::shared_ptr<TransportCounters> counters_ = std::make_shared<TransportCounters>();
  ActorHost& host_;
  const std::unique_ptr<CallReceiver> receiver_;
  const std::unique_ptr<TransportService> service_;
  const std::shared_ptr<RingHub> rings_;  // Null: not wanted.

  mutable Mutex mutex_;
  ConditionVariable timer_changed_;
  // When the timer looks again: most calls end before their deadline, and it is not woken for each.
  Monotonic timer_at_ ABSL_GUARDED_BY(mutex_) = Monotonic::Infinite();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  CallTable calls_ ABSL_GUARDED_BY(mutex_);
  CallRoutes routes_ ABSL_GUARDED_BY(mutex_);
  std::array<KnownWay, 16> known_ways_ ABSL_GUARDED_BY(mutex_);  // By where the address lies, which refs share.
  uint64_t next_stream_ ABSL_GUARDED_BY(mutex_) = 1;
  std::unordered_map<std::string, std::shared_ptr<ClientStream>> streams_ ABSL_GUARDED_BY(mutex_);  // By endpoint.
  DeathBook deaths_ ABSL_GUARDED_BY(mutex_);
  // Streams that wait for their process; given up then.
  std::deque<std::pair<Monotonic, std::shared_ptr<ClientStream>>> redials_ ABSL_GUARDED_BY(mutex_);
  Monotonic detached_at_ ABSL_GUARDED_BY(mutex_) = Monotonic::Infinite();  // When service_ is to be looked at.
  Monotonic circles_at_ ABSL_GUARDED_BY(mutex_) = Monotonic::Infinite();   // The next look.
  Mutex circles_mutex_;
  CircleFinder circles_ ABSL_GUARDED_BY(circles_mutex_);
  std::thread timer_;
};

}  // namespace troupe
