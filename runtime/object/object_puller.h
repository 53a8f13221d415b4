// SPDX-License-Identifier: Apache-2.0
// ObjectPuller: the driver of a node's pulls (pull_state.h), and of its holds on objects of other nodes. One thread
// takes what the broker and gRPC's callbacks say, steps, and begins what comes out of it. All gets of an object share
// one pull.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/object/exchange_service.h"
#include "runtime/object/node_holds.h"
#include "runtime/object/object_store.h"
#include "runtime/object/pull_state.h"
#include "runtime/rpc/security.h"
#include "troupe/v1/object_exchange.grpc.pb.h"

namespace troupe {

struct ObjectPullerOptions {
  std::string node_id;
  std::string endpoint;  // Where others fetch what this node has fetched.
  RpcSecurity security;
};

class ObjectPuller {
 public:
  // At a time; more wait.
  static constexpr size_t kPullsMax = 16;
  // So long a fetched object is offered to others after the last one asked for a chunk of it.
  static constexpr absl::Duration kOfferMax = absl::Seconds(10);

  // Both outlive the puller.
  ObjectPuller(ObjectPullerOptions options, std::shared_ptr<ObjectStore> store, ExchangeService& service);
  // Cancels what is on its way, and waits for that.
  ~ObjectPuller();

  // From the broker. Any thread.
  void Take(const v1::ElsewhereNotice& notice);

  struct Figures {
    int64_t fetched_bytes = 0;
    int64_t refused_chunks = 0;  // Cut, or with another checksum.
    size_t fetching = 0;         // Objects.
  };
  Figures figures() const;

 private:
  // Where a fetched object's bytes go; kept by everybody who writes or reads there.
  struct Target {
    ObjectBuffer buffer;
    std::span<std::byte> bytes;
    ObjectPin pin;  // When it is whole: until then nobody can take the memory away.
  };

  struct Pull {
    uint64_t number = 0;  // What belongs to an earlier pull of the object is told from this one's by it.
    v1::ObjectHome home;
    std::shared_ptr<Target> target;  // Null: it waits for its turn.
    std::shared_ptr<OfferedObject> offered;
    std::optional<PullState> state;
    std::map<int64_t, std::weak_ptr<grpc::ClientContext>> rpcs;  // Chunks on their way.
    bool ended = false;                                          // Whole, or failed.
    bool alone = false;  // Nobody else was fetching it when its home was asked last.
    int plans = 0;       // On their way; after its end one follows the other.
    Monotonic report_at;
  };
  struct PlanDone {
    ObjectId id;
    uint64_t pull = 0;
    absl::Status status;
    v1::PlanPullResponse response;
  };
  struct ChunkDone {
    ObjectId id;
    uint64_t pull = 0;
    int64_t chunk = 0;
    absl::Status status;
  };
  struct HoldDone {
    std::string endpoint;
    absl::Status status;
    bool known = false;
  };
  using Event = std::variant<v1::ElsewhereNotice, PlanDone, ChunkDone, HoldDone>;

  void Loop();
  void Handle(v1::ElsewhereNotice& notice);
  void Handle(PlanDone& done);
  void Handle(ChunkDone& done);
  void Handle(HoldDone& done);
  void Tick(Monotonic now);

  void Fetch(const ObjectId& id, const v1::ObjectHome& home);
  absl::Status Begin(const ObjectId& id, Pull& pull);
  void BeginWaiting();
  void Step(const ObjectId& id, Pull& pull, const PullEvent& event);
  void Do(const ObjectId& id, Pull& pull, const AskPlan& action);
  void Do(const ObjectId& id, Pull& pull, const FetchChunk& action);
  void Do(const ObjectId& id, Pull& pull, const PullEnded& action);
  void SendPlan(const ObjectId& id, Pull& pull, const ChunkSwarm::Report& report);
  // Nobody wants it, or it is offered no more; the next tick ends it.
  void Abandon(const ObjectId& id, Pull& pull);
  void EndOffer(const ObjectId& id);
  void TellFigures(Monotonic now);
  void SayHolds(const std::string& endpoint, NodeHolds& holds, Monotonic now);

  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& endpoint);
  // Of an RPC that begins; null: there are to be none any more.
  std::shared_ptr<grpc::ClientContext> NewContext(absl::Duration timeout);
  // In an RPC's callback, at its end.
  void Finish(const std::shared_ptr<grpc::ClientContext>& context, Event event);

  const ObjectPullerOptions options_;
  const uint64_t session_;
  const std::shared_ptr<ObjectStore> store_;
  ExchangeService& service_;

  // Of the thread alone.
  std::map<ObjectId, v1::ObjectHome> homes_;
  std::map<ObjectId, Pull> pulls_;
  std::deque<ObjectId> waiting_;
  std::map<std::string, NodeHolds> holds_;  // By endpoint.
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
  uint64_t pulls_made_ = 0;
  std::string told_figures_;
  Monotonic tell_figures_at_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);  // Bounded by what is on its way, and by the broker's notices.
  std::set<std::shared_ptr<grpc::ClientContext>> contexts_ ABSL_GUARDED_BY(mutex_);
  Figures figures_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace troupe
