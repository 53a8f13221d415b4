// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/exchange_service.h"

#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/object/chunk_wire.h"
#include "runtime/object/exchange_wire.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

// For an object that is on the disk.
constexpr absl::Duration kRestoreTimeout = absl::Seconds(20);
// Of a swarm that nobody is in; who leaves last ends it.
constexpr absl::Duration kAloneMax = absl::Seconds(1);

absl::Status NotOpen() { return absl::UnavailableError("this node is starting or ending"); }

}  // namespace

OfferedObject::OfferedObject(std::span<const std::byte> bytes, std::shared_ptr<const void> keeps, bool whole)
    : bytes_(bytes), keeps_(std::move(keeps)), has_(static_cast<size_t>(ChunksOf(static_cast<int64_t>(bytes.size())))) {
  for (std::atomic<bool>& has : has_) has.store(whole, std::memory_order_relaxed);
}

void ExchangeService::Open(std::shared_ptr<ObjectStore> store, std::string endpoint) {
  MutexLock lock(mutex_);
  store_ = std::move(store);
  endpoint_ = std::move(endpoint);
}

void ExchangeService::Close() {
  std::map<uint64_t, Holder> holders;  // Let go of outside the lock.
  std::map<ObjectId, Swarm> swarms;
  std::map<ObjectId, std::shared_ptr<OfferedObject>> offered;
  std::shared_ptr<ObjectStore> store;
  MutexLock lock(mutex_);
  holders.swap(holders_);
  swarms.swap(swarms_);
  offered.swap(offered_);
  store.swap(store_);
}

void ExchangeService::Tick(Monotonic now) {
  std::vector<Holder> silent;  // Let go of outside the lock.
  std::vector<ObjectId> alone;
  std::vector<std::shared_ptr<OfferedObject>> ended;
  MutexLock lock(mutex_);
  for (auto it = holders_.begin(); it != holders_.end();) {
    auto holder = it++;
    if (now - holder->second.heard <= kHoldLease) continue;
    silent.push_back(std::move(holder->second));
    holders_.erase(holder);
  }
  for (auto& [id, swarm] : swarms_) {
    swarm.plan.DropSilent(now);
    if (swarm.plan.Nodes().empty() && now - swarm.object->used() > kAloneMax) alone.push_back(id);
  }
  for (const ObjectId& id : alone) {
    ended.push_back(swarms_.at(id).object);
    EndSwarm(id);
  }
}

void ExchangeService::EndSwarm(const ObjectId& id) {
  auto swarm = swarms_.find(id);
  auto offered = offered_.find(id);
  if (offered != offered_.end() && offered->second == swarm->second.object) offered_.erase(offered);
  swarms_.erase(swarm);
}

void ExchangeService::Offer(const ObjectId& id, std::shared_ptr<OfferedObject> object) {
  object->Use(MonotonicNow());
  MutexLock lock(mutex_);
  offered_[id].swap(object);
}

void ExchangeService::Withdraw(const ObjectId& id, const OfferedObject* object) {
  std::shared_ptr<OfferedObject> ended;  // Let go of outside the lock.
  MutexLock lock(mutex_);
  auto found = offered_.find(id);
  if (found == offered_.end() || found->second.get() != object) return;
  ended = std::move(found->second);
  offered_.erase(found);
}

ExchangeService::Figures ExchangeService::figures() const {
  MutexLock lock(mutex_);
  Figures figures{sent_bytes_.load(), 0, swarms_.size()};
  for (const auto& [session, holder] : holders_) figures.held += holder.objects.size();
  return figures;
}

// ---- Holds ----

grpc::Status ExchangeService::Hold(grpc::ServerContext*, const v1::HoldForNodeRequest* request,
                                   v1::HoldForNodeResponse* response) {
  return ToGrpc(DoHold(*request, *response));
}

absl::Status ExchangeService::DoHold(const v1::HoldForNodeRequest& request, v1::HoldForNodeResponse& response) {
  if (request.session() == 0 || request.node_id().empty() || request.node_id() == node_id_ ||
      request.add_size() > kNamesMax || request.drop_size() > kNamesMax) {
    return absl::InvalidArgumentError("a hold without a session, of this node itself, or with too many names");
  }
  std::vector<ObjectHandle> ended;  // Let go of outside the lock.
  std::map<ObjectId, ObjectHandle> before;
  MutexLock lock(mutex_);
  if (store_ == nullptr) return NotOpen();
  auto found = holders_.find(request.session());
  if (found == holders_.end()) {
    if (!request.all()) return absl::OkStatus();
    if (holders_.size() >= kSessionsMax) return absl::ResourceExhaustedError("too many nodes hold objects of this one");
    found = holders_.emplace(request.session(), Holder()).first;
  }
  response.set_known(true);
  Holder& holder = found->second;
  holder.heard = MonotonicNow();
  if (request.all()) before.swap(holder.objects);
  for (const v1::ObjectName& name : request.drop()) {
    auto dropped = holder.objects.extract(ObjectId::FromProto(name));
    if (!dropped.empty()) ended.push_back(std::move(dropped.mapped()));
  }
  for (const v1::HeldObject& add : request.add()) {
    ObjectId id = ObjectId::FromProto(add.name());
    if (id.process == 0) return absl::InvalidArgumentError("an object without a name");
    // Its hold is on the broker's line before this is answered.
    if (holder.objects.size() >= kHeldMax && !holder.objects.contains(id)) {
      return absl::ResourceExhaustedError("a node holds " + std::to_string(kHeldMax) + " objects of this one already");
    }
    ObjectHandle& handle = holder.objects[id];
    if (handle == nullptr) handle = Adopt(id, add.size_bytes());
  }
  return absl::OkStatus();
}

ObjectHandle ExchangeService::Adopt(const ObjectId& id, int64_t bytes) {
  ObjectWire wire;
  wire.id = id;
  wire.bytes = bytes;
  wire.node_id = node_id_;
  wire.owner = "this node";
  return store_->Adopt(wire);
}

// ---- Plans ----

grpc::Status ExchangeService::Plan(grpc::ServerContext*, const v1::PlanPullRequest* request,
                                   v1::PlanPullResponse* response) {
  return ToGrpc(DoPlan(*request, *response));
}

absl::Status ExchangeService::DoPlan(const v1::PlanPullRequest& request, v1::PlanPullResponse& response) {
  TROUPE_ASSIGN_OR_RETURN(ChunkSwarm::Report report, ReportOf(request));
  ObjectId id = ObjectId::FromProto(request.name());
  bool known;
  {
    MutexLock lock(mutex_);
    known = swarms_.contains(id);
  }
  if (!known && request.leaves()) return absl::OkStatus();
  if (!known) TROUPE_RETURN_IF_ERROR(OpenSwarm(id, request.size_bytes()));
  MutexLock lock(mutex_);
  auto found = swarms_.find(id);
  if (found == swarms_.end()) return NotOpen();
  Swarm& swarm = found->second;
  if (static_cast<int64_t>(swarm.object->bytes().size()) != request.size_bytes()) {
    return absl::InvalidArgumentError(id.ToString() + " has another size");
  }
  Monotonic now = MonotonicNow();
  swarm.object->Use(now);
  TROUPE_ASSIGN_OR_RETURN(std::vector<ChunkSwarm::Send> sends, swarm.plan.Step(report, now));
  if (request.leaves()) {
    swarm.endpoints.erase(request.node_id());
    if (swarm.plan.Nodes().empty()) EndSwarm(id);
    return absl::OkStatus();
  }
  swarm.endpoints[request.node_id()] = request.endpoint();
  swarm.endpoints[node_id_] = endpoint_;
  response.set_chunk_bytes(kChunkBytes);
  response.set_alone(!swarm.plan.IsFetching(request.node_id()));
  for (const ChunkSwarm::Send& send : sends) {
    std::optional<uint32_t>& sum = swarm.sums[static_cast<size_t>(send.chunk)];
    if (!sum.has_value()) sum = ChunkSum(ChunkOf(swarm.object->bytes(), send.chunk));
    v1::ChunkSource& source = *response.add_sources();
    source.set_chunk(send.chunk);
    source.set_crc32c(*sum);
    source.mutable_source()->set_node_id(send.source);
    source.mutable_source()->set_endpoint(swarm.endpoints[send.source]);
  }
  for (const std::string& node : swarm.plan.Nodes()) {
    if (node == request.node_id() || response.others_size() == kOthersMax) continue;
    v1::NodeEndpoint& other = *response.add_others();
    other.set_node_id(node);
    other.set_endpoint(swarm.endpoints[node]);
  }
  return absl::OkStatus();
}

absl::Status ExchangeService::OpenSwarm(const ObjectId& id, int64_t bytes) {
  std::shared_ptr<ObjectStore> store;
  ObjectHandle handle;
  {
    MutexLock lock(mutex_);
    if (store_ == nullptr) return NotOpen();
    store = store_;
    handle = Adopt(id, bytes);
  }
  TROUPE_ASSIGN_OR_RETURN(ObjectPin pin, store->Get(handle, MonotonicNow() + kRestoreTimeout));
  auto kept = std::make_shared<const ObjectPin>(std::move(pin));
  auto object = std::make_shared<OfferedObject>(kept->bytes(), kept, true);
  object->Use(MonotonicNow());
  MutexLock lock(mutex_);
  if (store_ == nullptr) return NotOpen();
  auto [swarm, is_new] = swarms_.try_emplace(id, node_id_, object->chunks());
  if (!is_new) return absl::OkStatus();
  swarm->second.object = object;
  offered_[id] = std::move(object);
  return absl::OkStatus();
}

// ---- Chunks ----

grpc::ServerUnaryReactor* ExchangeService::GetChunk(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(SendChunk(*request, *response)));
  return reactor;
}

absl::Status ExchangeService::SendChunk(const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
  TROUPE_ASSIGN_OR_RETURN(ChunkName get, DecodeGetChunk(request));
  std::shared_ptr<OfferedObject> object;
  {
    MutexLock lock(mutex_);
    auto found = offered_.find(get.id);
    if (found != offered_.end()) object = found->second;
  }
  if (object == nullptr || !object->Has(get.chunk)) {
    return absl::NotFoundError("node " + node_id_ + " does not have chunk " + std::to_string(get.chunk) + " of " +
                               get.id.ToString());
  }
  if (sending_->fetch_add(1) >= kSendingMax) {
    sending_->fetch_sub(1);
    return absl::ResourceExhaustedError("node " + node_id_ + " sends " + std::to_string(kSendingMax) +
                                        " chunks already");
  }
  object->Use(MonotonicNow());
  std::span<const std::byte> chunk = ChunkOf(object->bytes(), get.chunk);
  sent_bytes_ += static_cast<int64_t>(chunk.size());
  response = EncodeChunk(chunk, ChunkSum(chunk), [object, sending = sending_] { sending->fetch_sub(1); });
  return absl::OkStatus();
}

}  // namespace troupe
