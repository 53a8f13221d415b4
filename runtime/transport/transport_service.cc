// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/transport_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace troupe {

struct TransportService::Channels {
  Channels(TransportServiceOptions opts, CallReceiver& to) : options(std::move(opts)), receiver(to) {}

  static absl::StatusOr<GrpcServerLink::Attached> Attach(const std::shared_ptr<Channels>& self,
                                                         const v1::TransportHello& hello,
                                                         const std::shared_ptr<GrpcServerLink>& link);
  static absl::StatusOr<std::shared_ptr<GrpcServerChannel>> ChannelOf(const std::shared_ptr<Channels>& self,
                                                                      const v1::TransportHello& hello);

  const TransportServiceOptions options;
  CallReceiver& receiver;  // While streams come.
  Mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<GrpcServerChannel>> open ABSL_GUARDED_BY(mutex);  // By session.
};

absl::StatusOr<std::shared_ptr<GrpcServerChannel>> TransportService::Channels::ChannelOf(
    const std::shared_ptr<Channels>& self, const v1::TransportHello& hello) {
  const uint64_t id = hello.session();
  std::shared_ptr<GrpcServerChannel> channel;
  {
    MutexLock lock(self->mutex);
    auto found = self->open.find(id);
    if (found != self->open.end()) return found->second;
    if (hello.epoch() != 1) {
      return absl::AbortedError("the session of " + hello.process() +
                                " is not known to this process: it is another one, or the session has ended here");
    }
    GrpcServerChannel::Events events;
    std::weak_ptr<Channels> weak = self;
    events.detached = [weak] {
      auto channels = weak.lock();
      if (channels != nullptr) channels->options.detached();
    };
    events.ended = [weak, id] {
      std::shared_ptr<GrpcServerChannel> ended;  // Destroyed outside the lock.
      auto channels = weak.lock();
      if (channels == nullptr) return;
      MutexLock erasing(channels->mutex);
      auto at = channels->open.find(id);
      if (at == channels->open.end()) return;
      ended = std::move(at->second);
      channels->open.erase(at);
    };
    channel = std::make_shared<GrpcServerChannel>(self->options.limits, self->options.counters, std::move(events));
    self->open[id] = channel;
  }
  std::shared_ptr<ServerSession> session = self->receiver.Accept(channel, {hello.process(), "", false, "gRPC stream"});
  if (session == nullptr) {
    channel->End(absl::UnavailableError("the process is stopping"));
    return absl::UnavailableError("the process is stopping");
  }
  channel->SetSink(std::move(session));
  return channel;
}

absl::StatusOr<GrpcServerLink::Attached> TransportService::Channels::Attach(
    const std::shared_ptr<Channels>& self, const v1::TransportHello& hello,
    const std::shared_ptr<GrpcServerLink>& link) {
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<GrpcServerChannel> channel, ChannelOf(self, hello));
  TROUPE_ASSIGN_OR_RETURN(auto answer, channel->Attach(hello, self->options.process_name, link));
  return GrpcServerLink::Attached{std::move(channel), std::move(answer)};
}

TransportService::TransportService(TransportServiceOptions options, CallReceiver& receiver)
    : channels_(std::make_shared<Channels>(std::move(options), receiver)) {}

TransportService::~TransportService() = default;

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* TransportService::Connect(
    grpc::CallbackServerContext* context) {
  auto attach = [channels = channels_](const v1::TransportHello& hello, const std::shared_ptr<GrpcServerLink>& link) {
    return Channels::Attach(channels, hello, link);
  };
  return GrpcServerLink::Accept(context, std::move(attach), channels_->options.counters).get();
}

grpc::ServerUnaryReactor* TransportService::ListConnections(grpc::CallbackServerContext* context,
                                                            const v1::ListConnectionsRequest*,
                                                            v1::ListConnectionsResponse* response) {
  channels_->options.list(*response);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

Monotonic TransportService::EndDetached(Monotonic now) {
  std::vector<std::shared_ptr<GrpcServerChannel>> late;
  Monotonic next = Monotonic::Infinite();
  {
    MutexLock lock(channels_->mutex);
    for (const auto& [id, channel] : channels_->open) {
      Monotonic since = channel->detached_at();
      if (since.infinite()) continue;
      Monotonic until = since + channels_->options.session_timeout;
      if (until <= now) {
        late.push_back(channel);
      } else {
        next = std::min(next, until);
      }
    }
  }
  for (const auto& channel : late) {
    channel->End(absl::UnavailableError("the caller's connection broke, and it did not come back in time"));
  }
  return next;
}

}  // namespace troupe
