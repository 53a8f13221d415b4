// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/head_server.h"

#include "runtime/base/status.h"
#include "runtime/rpc/server.h"
#include "scheduler/server/decision_loop.h"
#include "scheduler/server/event_log.h"
#include "scheduler/server/head_service.h"
#include "scheduler/server/node_service.h"
#include "scheduler/store/sqlite_store.h"

namespace troupe {

using scheduler::Action;
using scheduler::DecisionLoop;
using scheduler::Event;

namespace {

// Handlers that wait have been told; this is for those that write to a slow reader.
constexpr absl::Duration kServerGrace = absl::Seconds(2);

}  // namespace

class HeadServer::Impl {
 public:
  explicit Impl(const std::string& data_dir)
      : events_(data_dir),
        nodes_({[this](Event event) { return loop_->Decide(std::move(event), Writer::kStore); },
                [this](const std::string& node, Monotonic at) { board_.NodeHeard(node, at); }}),
        service_({[this](Event event) { return loop_->Decide(std::move(event), Writer::kCaller); }, &calls_, &board_}) {
  }
  ~Impl() { Shutdown(); }

  absl::Status Start(std::unique_ptr<scheduler::RecordStore> store, HeadOptions options) {
    scheduler::LoopOptions loop;
    loop.cluster.lease = options.lease;
    loop.cluster.heartbeat_interval = options.heartbeat_interval;
    loop.cluster.head_loss_grace = options.head_loss_grace;
    loop.commit_timeout = options.commit_timeout;
    loop.deliver = [this](Action action) { std::visit([this](auto& a) { Deliver(std::move(a)); }, action); };
    loop.delivered = [this] { nodes_.Flush(); };
    loop.on_fatal = [this, on_fatal = options.on_fatal](const absl::Status& status) {
      calls_.CloseAll();
      if (on_fatal) on_fatal(status);
    };
    TROUPE_ASSIGN_OR_RETURN(loop_, DecisionLoop::Start(std::move(loop), std::move(store)));
    nodes_.set_term(loop_->term());
    TROUPE_ASSIGN_OR_RETURN(server_, RpcServer::Start({.addresses = options.addresses, .security = options.security},
                                                      {&service_, &nodes_}));
    return absl::OkStatus();
  }

  void Shutdown() {
    if (server_ != nullptr) {
      service_.Close();
      nodes_.CloseAll();
      server_->Shutdown(kServerGrace);
      server_.reset();
    }
    if (loop_ != nullptr) loop_->Stop();
  }

  const std::vector<int>& ports() const { return ports_; }
  void RememberPorts() { ports_ = server_->ports(); }
  const DecisionLoop& loop() const { return *loop_; }

 private:
  using Writer = scheduler::RecordStore::Writer;
  void Deliver(scheduler::Answer answer) { calls_.Complete(std::move(answer)); }
  void Deliver(scheduler::SendToNode send) { nodes_.Send(send.session, std::move(send.message)); }
  void Deliver(scheduler::CloseSession close) { nodes_.Close(close.session, close.reason); }
  void Deliver(scheduler::WriteEvent event) { events_.Append(std::move(event)); }
  void Deliver(scheduler::PublishJob change) { board_.Publish(change); }
  void Deliver(scheduler::PublishActors change) { board_.Publish(change); }
  void Deliver(scheduler::PublishNode change) { board_.Publish(change); }

  // In the order in which they may use each other: later ones use earlier ones.
  scheduler::ViewBoard board_;
  scheduler::Calls calls_;
  scheduler::EventLog events_;
  scheduler::NodeService nodes_;
  scheduler::HeadService service_;
  std::unique_ptr<DecisionLoop> loop_;
  std::unique_ptr<RpcServer> server_;
  std::vector<int> ports_;
};

absl::StatusOr<std::unique_ptr<HeadServer>> HeadServer::Start(HeadOptions options) {
  absl::StatusOr<std::unique_ptr<scheduler::RecordStore>> store = scheduler::SqliteStore::Open(options.data_dir);
  if (!store.ok()) return Annotate(store.status(), "the head did not start");
  return StartOn(*std::move(store), std::move(options));
}

absl::StatusOr<std::unique_ptr<HeadServer>> HeadServer::StartOn(std::unique_ptr<scheduler::RecordStore> store,
                                                                HeadOptions options) {
  auto impl = std::make_unique<Impl>(options.data_dir);
  TROUPE_RETURN_IF_ERROR(Annotate(impl->Start(std::move(store), std::move(options)), "the head did not start"));
  impl->RememberPorts();
  return std::unique_ptr<HeadServer>(new HeadServer(std::move(impl)));
}

HeadServer::HeadServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HeadServer::~HeadServer() = default;

const std::vector<int>& HeadServer::ports() const { return impl_->ports(); }

int HeadServer::port() const {
  for (int port : ports()) {
    if (port > 0) return port;
  }
  return 0;
}

uint64_t HeadServer::term() const { return impl_->loop().term(); }
absl::Status HeadServer::status() const { return impl_->loop().status(); }
void HeadServer::Shutdown() { impl_->Shutdown(); }

}  // namespace troupe
