// SPDX-License-Identifier: Apache-2.0
// The RPCs of an ObjectPuller: each ends as an event for its thread.
#include <grpcpp/generic/generic_stub.h>

#include <utility>

#include "runtime/object/chunk_wire.h"
#include "runtime/object/exchange_wire.h"
#include "runtime/object/object_puller.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

constexpr absl::Duration kHoldTimeout = absl::Seconds(5);
// The home may have to read the object from its disk.
constexpr absl::Duration kPlanTimeout = absl::Seconds(25);
constexpr absl::Duration kChunkTimeout = absl::Seconds(15);
constexpr size_t kChannelsMax = 256;
const char kGetChunkMethod[] = "/troupe.v1.ObjectExchange/GetChunk";

// Of an RPC with generated messages, which live until its callback has run.
template <typename Request, typename Response>
struct Messages {
  Request request;
  Response response;
};

}  // namespace

void ObjectPuller::SayHolds(const std::string& endpoint, NodeHolds& holds, Monotonic now) {
  std::optional<NodeHolds::Request> say = holds.Next(now);
  if (!say.has_value()) return;
  std::shared_ptr<grpc::ClientContext> context = NewContext(kHoldTimeout);
  if (context == nullptr) return;
  auto messages = std::make_shared<Messages<v1::HoldForNodeRequest, v1::HoldForNodeResponse>>();
  messages->request.set_node_id(options_.node_id);
  messages->request.set_session(session_);
  messages->request.set_all(say->all);
  for (const auto& [id, bytes] : say->add) {
    v1::HeldObject& add = *messages->request.add_add();
    *add.mutable_name() = id.ToProto();
    add.set_size_bytes(bytes);
  }
  for (const ObjectId& id : say->drop) *messages->request.add_drop() = id.ToProto();
  auto stub = std::make_shared<v1::ObjectExchange::Stub>(ChannelTo(endpoint));
  stub->async()->Hold(context.get(), &messages->request, &messages->response,
                      [this, context, messages, stub, endpoint](const grpc::Status& status) {
                        Finish(context, HoldDone{endpoint, FromGrpc(status), messages->response.known()});
                      });
}

void ObjectPuller::SendPlan(const ObjectId& id, Pull& pull, const ChunkSwarm::Report& report) {
  std::shared_ptr<grpc::ClientContext> context = NewContext(kPlanTimeout);
  if (context == nullptr) return;
  ++pull.plans;
  auto messages = std::make_shared<Messages<v1::PlanPullRequest, v1::PlanPullResponse>>();
  messages->request = ToProto(id, pull.home.size_bytes(), report);
  messages->request.set_node_id(options_.node_id);
  messages->request.set_endpoint(options_.endpoint);
  auto stub = std::make_shared<v1::ObjectExchange::Stub>(ChannelTo(pull.home.endpoint()));
  stub->async()->Plan(context.get(), &messages->request, &messages->response,
                      [this, context, messages, stub, id, number = pull.number](const grpc::Status& status) {
                        Finish(context, PlanDone{id, number, FromGrpc(status), std::move(messages->response)});
                      });
}

void ObjectPuller::Do(const ObjectId& id, Pull& pull, const FetchChunk& action) {
  std::shared_ptr<grpc::ClientContext> context = NewContext(kChunkTimeout);
  if (context == nullptr) return;
  auto messages = std::make_shared<Messages<grpc::ByteBuffer, grpc::ByteBuffer>>();
  messages->request = EncodeGetChunk({id, action.chunk});
  auto stub = std::make_shared<grpc::GenericStub>(ChannelTo(action.source.endpoint));
  pull.rpcs[action.chunk] = context;
  stub->UnaryCall(context.get(), kGetChunkMethod, grpc::StubOptions(), &messages->request, &messages->response,
                  [this, context, messages, stub, id, number = pull.number, target = pull.target, chunk = action.chunk,
                   crc = action.crc](const grpc::Status& status) mutable {
                    absl::Status done = FromGrpc(status);
                    std::vector<grpc::Slice> slices;
                    if (done.ok()) done = FromGrpc(messages->response.Dump(&slices));
                    if (done.ok()) done = DecodeChunk(slices, crc, ChunkOf(target->bytes, chunk));
                    target = nullptr;  // Before anybody hears of it: it may be the last that keeps the memory.
                    Finish(context, ChunkDone{id, number, chunk, std::move(done)});
                  });
}

std::shared_ptr<grpc::Channel> ObjectPuller::ChannelTo(const std::string& endpoint) {
  // Those in use are kept by their RPCs.
  if (channels_.size() >= kChannelsMax && !channels_.contains(endpoint)) channels_.clear();
  std::shared_ptr<grpc::Channel>& channel = channels_[endpoint];
  if (channel == nullptr) channel = MakeChannel(endpoint, options_.security);
  return channel;
}

std::shared_ptr<grpc::ClientContext> ObjectPuller::NewContext(absl::Duration timeout) {
  auto context = std::make_shared<grpc::ClientContext>();
  SetTimeout(*context, timeout);
  MutexLock lock(mutex_);
  if (stop_) return nullptr;
  contexts_.insert(context);
  return context;
}

void ObjectPuller::Finish(const std::shared_ptr<grpc::ClientContext>& context, Event event) {
  MutexLock lock(mutex_);
  contexts_.erase(context);
  if (!stop_) events_.push_back(std::move(event));
  changed_.NotifyAll();
}

}  // namespace troupe
