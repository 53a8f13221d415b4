// SPDX-License-Identifier: Apache-2.0
// ServerSession: the serving side of a channel: hands calls to the host and sends the replies back. CallReceiver: what
// the sessions of a process share, whatever their channels are.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/actor_host.h"
#include "runtime/base/mutex.h"
#include "runtime/transport/frame_channel.h"
#include "runtime/transport/payload_port.h"
#include "runtime/transport/reply_book.h"

namespace troupe {

class ServerSession;

class CallReceiver {
 public:
  // Takes a probe of waits that came on the session of that number.
  using Probed = std::function<absl::Status(uint64_t session, const std::string& probe)>;
  CallReceiver(TransferLimits transfers, ActorHost& host, Probed probed)
      : transfers_(transfers), host_(host), probed_(std::move(probed)) {}

  // The session of a new channel, which is so described; null: the process is stopping.
  std::shared_ptr<ServerSession> Accept(std::shared_ptr<FrameChannel> channel, Connection connection);
  // Of those that there are.
  std::vector<Connection> Connections() const;
  // A confirm to the caller of that session, behind the replies; nothing happens when it has ended, or when the reply
  // of that call is on its way.
  void Confirm(uint64_t session, uint64_t call, Envelope&& confirm);
  // Ends every session's channel, and takes no more.
  void Shutdown();

 private:
  friend class ServerSession;
  // Of calls that may be repeated; shared with their replies, which may come after the receiver has gone.
  struct SharedBook {
    // Held while a call is taken and delivered, so that both keep one order. Taken before `mutex`.
    Mutex order_mutex;
    Mutex mutex;
    ReplyBook book ABSL_GUARDED_BY(mutex);
  };
  void Forget(const std::shared_ptr<ServerSession>& session);

  const TransferLimits transfers_;
  ActorHost& host_;
  const Probed probed_;
  const std::shared_ptr<SharedBook> book_ = std::make_shared<SharedBook>();
  mutable Mutex mutex_;
  uint64_t sessions_made_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<ServerSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

// Replies come from actors' threads at any time, also after the channel has ended: they hold the session, and the
// channel knows whether it still sends.
class ServerSession final : public EnvelopeSink, public std::enable_shared_from_this<ServerSession> {
 public:
  // By CallReceiver::Accept. Later sessions have higher numbers.
  ServerSession(CallReceiver& receiver, std::shared_ptr<FrameChannel> channel, Connection connection, uint64_t number)
      : receiver_(receiver),
        host_(receiver.host_),
        book_(receiver.book_),
        limits_(receiver.transfers_),
        channel_(std::move(channel)),
        connection_(std::move(connection)),
        number_(number),
        payloads_(limits_) {}

  // EnvelopeSink.
  absl::Status Take(Envelope&& envelope) override;
  void Ended(const absl::Status& why) override;

  FrameChannel& channel() { return *channel_; }
  const Connection& connection() const { return connection_; }
  uint64_t number() const { return number_; }
  void Confirm(uint64_t call, Envelope&& confirm);

 private:
  struct OpenStreamCall {
    std::shared_ptr<StreamSink> sink;
    absl::Status error;  // Of the transport's own.
  };

  absl::Status TakeCall(Envelope&& envelope);
  // To the actor, or answers.
  void Deliver(const std::shared_ptr<const CallRoute>& route, IncomingCall call);
  absl::Status TakeTransfer(Envelope&& envelope);
  // A reply or an item: those of a call keep their order.
  void Send(Envelope&& envelope);
  absl::Status DeliverOnce(const RepeatKey& key, const std::shared_ptr<const CallRoute>& route, IncomingCall& call);
  // Whether this call is to run now; if not, its reply is sent, or will be.
  bool BeginOnce(const RepeatKey& key, IncomingCall& call);
  void Acknowledge(const RepeatKey& key);
  std::shared_ptr<StreamSink> OpenStream(uint64_t call_id, StreamWindow window);
  std::shared_ptr<StreamSink> SinkOf(uint64_t call_id);
  void Item(uint64_t call_id, std::string item);
  absl::Status TooLarge(const std::string& what, size_t bytes) const;
  void Reply(uint64_t call_id, bool streams, absl::StatusOr<std::string> result);

  CallReceiver& receiver_;  // Until Ended.
  ActorHost& host_;         // Until Ended.
  const std::shared_ptr<CallReceiver::SharedBook> book_;
  const TransferLimits limits_;
  const std::shared_ptr<FrameChannel> channel_;
  const Connection connection_;
  const uint64_t number_;

  // Whom the last call went to, which the next one often goes to as well. Of the thread that brings envelopes.
  std::shared_ptr<const CallRoute> last_route_;
  std::weak_ptr<ActorCell> last_cell_;

  // Of the calls that may be repeated: the first one's, whose caller and line are those of all; and no more come.
  std::optional<RepeatKey> line_ ABSL_GUARDED_BY(book_->order_mutex);
  bool line_over_ ABSL_GUARDED_BY(book_->order_mutex) = false;

  Mutex mutex_;
  std::map<uint64_t, OpenStreamCall> streams_ ABSL_GUARDED_BY(mutex_);  // By call.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  PayloadPort payloads_;  // Its mutex is taken after nothing.
};

}  // namespace troupe
