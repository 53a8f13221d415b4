// SPDX-License-Identifier: Apache-2.0
// ExchangeService: what a node does for others that want its objects: holds them, says from where to fetch their chunks
// (chunk_swarm.h), and sends chunks: of its own objects, and of those that it has fetched or is fetching itself.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/object/chunk_swarm.h"
#include "runtime/object/object_store.h"
#include "troupe/v1/object_exchange.grpc.pb.h"

namespace troupe {

// Chunks that this node has of an object, for others. Each is written before it is offered, and stays.
class OfferedObject {
 public:
  // `keeps`: the bytes, while this lives. `whole`: every chunk is there.
  OfferedObject(std::span<const std::byte> bytes, std::shared_ptr<const void> keeps, bool whole);

  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t chunks() const { return static_cast<int64_t>(has_.size()); }
  void Offer(int64_t chunk) { has_[static_cast<size_t>(chunk)].store(true, std::memory_order_release); }
  bool Has(int64_t chunk) const {
    return chunk >= 0 && chunk < chunks() && has_[static_cast<size_t>(chunk)].load(std::memory_order_acquire);
  }
  // The last time that a chunk of it was asked for.
  Monotonic used() const { return Monotonic::FromNanoseconds(used_ns_.load(std::memory_order_relaxed)); }
  void Use(Monotonic now) { used_ns_.store(now.nanoseconds(), std::memory_order_relaxed); }

 private:
  const std::span<const std::byte> bytes_;
  const std::shared_ptr<const void> keeps_;
  std::vector<std::atomic<bool>> has_;
  std::atomic<int64_t> used_ns_{0};
};

class ExchangeService final : public v1::ObjectExchange::WithRawCallbackMethod_GetChunk<v1::ObjectExchange::Service> {
 public:
  static constexpr absl::Duration kHoldLease = absl::Seconds(30);
  static constexpr size_t kSessionsMax = 4096;
  static constexpr int kNamesMax = 1024;       // Of a request.
  static constexpr size_t kHeldMax = 1 << 20;  // By one node.
  // Chunks on their way out, of all objects together.
  static constexpr int kSendingMax = 32;
  static constexpr int kOthersMax = 16;

  explicit ExchangeService(std::string node_id) : node_id_(std::move(node_id)) {}

  // Until then everything is UNAVAILABLE. `endpoint`: its own, as others know it.
  void Open(std::shared_ptr<ObjectStore> store, std::string endpoint);
  // Lets go of everything; chunks on their way keep what they need.
  void Close();
  // From time to time: who was silent for too long holds nothing.
  void Tick(Monotonic now);

  void Offer(const ObjectId& id, std::shared_ptr<OfferedObject> object);
  // Harmless when another one is offered by now.
  void Withdraw(const ObjectId& id, const OfferedObject* object);

  struct Figures {
    int64_t sent_bytes = 0;
    size_t held = 0;    // By other nodes, each counted by itself.
    size_t swarms = 0;  // Objects of this node that are being fetched.
  };
  Figures figures() const;

  grpc::Status Hold(grpc::ServerContext* context, const v1::HoldForNodeRequest* request,
                    v1::HoldForNodeResponse* response) override;
  grpc::Status Plan(grpc::ServerContext* context, const v1::PlanPullRequest* request,
                    v1::PlanPullResponse* response) override;
  grpc::ServerUnaryReactor* GetChunk(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  // What GetChunk answers.
  absl::Status SendChunk(const grpc::ByteBuffer& request, grpc::ByteBuffer& response);

 private:
  struct Holder {
    std::map<ObjectId, ObjectHandle> objects;
    Monotonic heard;
  };
  struct Swarm {
    Swarm(std::string home, int64_t chunks) : plan(std::move(home), chunks), sums(static_cast<size_t>(chunks)) {}
    ChunkSwarm plan;
    std::shared_ptr<OfferedObject> object;
    std::map<std::string, std::string> endpoints;  // By node.
    std::vector<std::optional<uint32_t>> sums;     // Of chunks, when they were needed first.
  };

  absl::Status DoHold(const v1::HoldForNodeRequest& request, v1::HoldForNodeResponse& response);
  absl::Status DoPlan(const v1::PlanPullRequest& request, v1::PlanPullResponse& response);
  // Begins the swarm of an object of this node; waits until it is in memory.
  absl::Status OpenSwarm(const ObjectId& id, int64_t bytes);
  ObjectHandle Adopt(const ObjectId& id, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndSwarm(const ObjectId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string node_id_;
  mutable Mutex mutex_;
  std::string endpoint_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ObjectStore> store_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Holder> holders_ ABSL_GUARDED_BY(mutex_);  // By session.
  std::map<ObjectId, Swarm> swarms_ ABSL_GUARDED_BY(mutex_);
  std::map<ObjectId, std::shared_ptr<OfferedObject>> offered_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<std::atomic<int>> sending_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<int64_t> sent_bytes_{0};
};

}  // namespace troupe
