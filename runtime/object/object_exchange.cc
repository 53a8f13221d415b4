// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_exchange.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/tcp.h"

namespace troupe {
namespace {

constexpr absl::Duration kServerGrace = absl::ZeroDuration();
// Chunks of up to 1 MiB, and few at a time: beyond it senders wait.
constexpr int64_t kServerBytesMax = 256 << 20;
// Blocks that are kept for the next object.
constexpr int64_t kIdleBytesMax = 64 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectExchange>> ObjectExchange::Start(ObjectExchangeOptions options) {
  TROUPE_ASSIGN_OR_RETURN(TcpAddress address, TcpAddress::Parse(options.address));
  std::unique_ptr<ObjectExchange> exchange(new ObjectExchange(std::move(options)));
  RpcServerOptions server{.addresses = {exchange->options_.address}, .security = exchange->options_.security};
  server.limits.memory_bytes_max = kServerBytesMax;
  TROUPE_ASSIGN_OR_RETURN(exchange->server_, RpcServer::Start(server, {&exchange->service_}));
  address.port = exchange->server_->ports().front();
  exchange->endpoint_ = address.ToString();
  return exchange;
}

ObjectExchange::ObjectExchange(ObjectExchangeOptions options)
    : options_(std::move(options)), service_(options_.node_id) {}

ObjectExchange::~ObjectExchange() {
  service_.Close();
  // Ends what a handler waits for, and the broker's notices to the puller.
  if (store_ != nullptr) store_->Shutdown();
  if (server_ != nullptr) server_->Shutdown(kServerGrace);
  puller_ = nullptr;
}

absl::Status ObjectExchange::Join(const std::string& object_socket) {
  store_ = ObjectStore::Create({.name = "node " + options_.node_id,
                                .bytes_max = options_.bytes_max,
                                .idle_bytes_max = kIdleBytesMax,
                                .elsewhere = [this](const v1::ElsewhereNotice& notice) { puller_->Take(notice); }});
  puller_ = std::make_unique<ObjectPuller>(ObjectPullerOptions{options_.node_id, endpoint_, options_.security}, store_,
                                           service_);
  store_->UseBroker(object_socket, {});
  TROUPE_RETURN_IF_ERROR(store_->Join());
  service_.Open(store_, endpoint_);
  return absl::OkStatus();
}

ObjectExchange::Figures ObjectExchange::figures() const {
  ExchangeService::Figures given = service_.figures();
  Figures figures{.sent_bytes = given.sent_bytes, .held = given.held};
  if (puller_ == nullptr) return figures;
  ObjectPuller::Figures fetched = puller_->figures();
  figures.fetched_bytes = fetched.fetched_bytes;
  figures.refused_chunks = fetched.refused_chunks;
  figures.fetching = fetched.fetching;
  return figures;
}

}  // namespace troupe
