// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/transport_pair.h"

#include <atomic>
#include <utility>

#include "runtime/actor/actor_cell.h"
#include "runtime/actor/actor_context.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/futex.h"
#include "runtime/env/process.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/server.h"

namespace troupe::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);
constexpr size_t kMailboxMessages = 4096;

ActorLife Life() { return {{JobId("bench"), "peer", 0}, 1}; }

}  // namespace

struct TransportPair::Ports {
  std::atomic<uint32_t> grpc{0};  // 0: the other process is not ready.
};

absl::StatusOr<std::unique_ptr<TransportPair>> TransportPair::Start(const std::string& folder, absl::Duration spin) {
  std::unique_ptr<TransportPair> pair(new TransportPair);
  pair->security_.token = Token::Generate();
  pair->spin_ = spin;
  pair->ring_endpoint_ = "unix:" + folder + "/spinning.sock";
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create("bench-ports", 4096);
  if (!memory.ok()) return memory.status();
  pair->memory_ = *std::move(memory);
  pair->ports_ = new (pair->memory_.data()) Ports;
  absl::StatusOr<FarSide> far_side = FarSide::Start([&pair] { pair->Serve(); });
  if (!far_side.ok()) return far_side.status();
  pair->far_side_ = std::make_unique<FarSide>(*std::move(far_side));
  return pair;
}

TransportPair::~TransportPair() {
  bare_ = nullptr;
  for (const std::shared_ptr<Transport>& transport : {grpc_, spinning_}) {
    if (transport != nullptr) transport->Shutdown();
  }
}

std::shared_ptr<Transport> TransportPair::NewTransport(const std::string& name, ActorHost& host, bool rings) const {
  TransportOptions options;
  options.process_name = name;
  options.security = security_;
  options.rings = rings;
  options.ring_spin = rings ? spin_ : absl::ZeroDuration();
  return Transport::Create(options, host);
}

// In the other process, which is killed in the end: what serves there is never destroyed.
void TransportPair::Serve() const {
  TuneMalloc();
  ServeActor(ring_endpoint_, /*rings=*/true);
  ServeActor("", /*rings=*/false);
}

void TransportPair::ServeActor(const std::string& endpoint, bool rings) const {
  auto* host = new ActorHost();
  auto* transport = new std::shared_ptr<Transport>(NewTransport("peer", *host, rings));
  ActorSetting setting;
  setting.self = Life();
  setting.endpoint = endpoint;
  auto* context = new ActorContext(setting, *transport, nullptr);
  ActorCellOptions options;
  options.mailbox.messages_max = kMailboxMessages;
  options.idle = (*transport)->idle_work();
  auto* cell = new std::shared_ptr<ActorCell>(std::make_shared<ActorCell>(
      *ActorRegistry::Global().Find("BenchPeer").value(), std::make_unique<BenchPeer>(), *context, options));
  TROUPE_CHECK((*cell)->Start().ok(), "the actor starts");
  host->Add(*cell);
  if (rings) {
    absl::Status served = (*transport)->ServeRings(endpoint);
    TROUPE_CHECK(served.ok(), StatusText(served));
    return;
  }
  auto* echo = new EchoService;
  RpcServerOptions server_options;
  server_options.security = security_;
  auto* server =
      new absl::StatusOr<std::unique_ptr<RpcServer>>(RpcServer::Start(server_options, {(*transport)->service(), echo}));
  TROUPE_CHECK(server->ok(), StatusText(server->status()));
  ports_->grpc = static_cast<uint32_t>((**server)->ports()[0]);
  FutexWake(ports_->grpc, 1);
}

absl::Status TransportPair::Connect() {
  Monotonic deadline = MonotonicNow() + kStartTimeout;
  while (ports_->grpc == 0 && MonotonicNow() < deadline) FutexWait(ports_->grpc, 0, 1, deadline);
  if (ports_->grpc == 0) return absl::DeadlineExceededError("the other process of the benchmark does not serve");
  std::string target = "127.0.0.1:" + std::to_string(ports_->grpc);
  grpc_ = NewTransport("caller", host_, /*rings=*/false);
  spinning_ = NewTransport("spinner", host_, /*rings=*/true);
  by_grpc_ = Ref<BenchPeer>({Life(), target}, grpc_);
  by_spinning_rings_ = Ref<BenchPeer>({Life(), ring_endpoint_}, spinning_);
  bare_ = std::make_unique<BareGrpc>(MakeChannel(target, security_));
  for (const Ref<BenchPeer>& ref : {by_grpc_, by_spinning_rings_}) {
    absl::StatusOr<int64_t> answer = ref.Call<&BenchPeer::Add>(int64_t{0}).Get();
    if (!answer.ok()) return Annotate(answer.status(), ref.address().endpoint);
  }
  return absl::OkStatus();
}

}  // namespace troupe::bench
