// SPDX-License-Identifier: Apache-2.0
// PullState: how a node fetches one object of another node, in chunks. Pure: what happened goes in, what is to be done
// comes out. The object's home says from where to fetch (chunk_swarm.h); when it is gone, the other nodes that were
// known to have chunks are asked for the rest.
//
// PULL-1: a chunk is fetched by one request at a time, and not again once it has arrived. PULL-2: at most kWindow
// chunks and one plan are on their way. PULL-3: it ends: whole, or with an error when nothing has arrived for
// kStallMax.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "runtime/object/chunk_swarm.h"

namespace troupe {

// ---- What happened ----
struct PullSource {
  std::string node;
  std::string endpoint;
};
struct PlanCame {
  struct Fetch {
    int64_t chunk = 0;
    PullSource source;
    uint32_t crc = 0;
  };
  std::vector<Fetch> fetches;
  std::vector<PullSource> others;
};
struct PlanFailed {
  absl::Status status;
};
struct ChunkCame {
  int64_t chunk = 0;
};
struct ChunkFailed {
  int64_t chunk = 0;
  absl::Status status;  // NOT_FOUND, DATA_LOSS: the source does not have it.
};
struct PullTick {};
using PullEvent = std::variant<PlanCame, PlanFailed, ChunkCame, ChunkFailed, PullTick>;

// ---- What is to be done ----
struct AskPlan {
  ChunkSwarm::Report report;  // But for the node.
};
struct FetchChunk {
  int64_t chunk = 0;
  PullSource source;
  std::optional<uint32_t> crc;  // As the home has it.
};
struct PullEnded {
  absl::Status status;
};
using PullAction = std::variant<AskPlan, FetchChunk, PullEnded>;

class PullState {
 public:
  static constexpr int kWindow = ChunkSwarm::kWindowMax;
  // The home answers at once; then, without anything new, so often.
  static constexpr absl::Duration kAskAgainMin = absl::Milliseconds(5);
  static constexpr absl::Duration kAskAgainMax = absl::Milliseconds(50);
  // Of a home that fails; after kHomeFailures in a row others are asked, too.
  static constexpr absl::Duration kHomeRetry = absl::Milliseconds(250);
  static constexpr int kHomeFailures = 3;
  // Between two rounds over the others.
  static constexpr absl::Duration kRoundPause = absl::Milliseconds(200);
  static constexpr absl::Duration kStallMax = absl::Seconds(20);
  // When the home has said that it does not have the object.
  static constexpr absl::Duration kOrphanStallMax = absl::Seconds(5);

  // Other nodes that are remembered, for when the home goes; a home names 16 at a time.
  static constexpr size_t kOthersMax = 256;

  // `chunks` > 0. The first tick begins it. `home` is for errors: "node x at host:port".
  PullState(int64_t chunks, std::string home, Monotonic now);

  std::vector<PullAction> Step(const PullEvent& event, Monotonic now);

  // Whole: its chunks are offered to others, which the home is told of once a second by this report.
  ChunkSwarm::Report OfferReport();
  bool whole() const { return arrived_ == chunks_; }
  int64_t arrived() const { return arrived_; }
  size_t others() const { return others_.size(); }

 private:
  void Take(const PlanCame& plan, Monotonic now, std::vector<PullAction>& actions);
  void Take(const PlanFailed& failed, Monotonic now);
  void Take(const ChunkCame& came, Monotonic now);
  void Take(const ChunkFailed& failed, Monotonic now);
  void Ask(Monotonic now, std::vector<PullAction>& actions);
  void FetchFromOthers(Monotonic now, std::vector<PullAction>& actions);
  bool home_lost() const { return home_failures_ >= kHomeFailures; }
  void Fetch(int64_t chunk, const PullSource& source, std::optional<uint32_t> crc, std::vector<PullAction>& actions);
  std::optional<absl::Status> End(Monotonic now) const;

  const int64_t chunks_;
  const std::string home_;
  std::vector<bool> has_;
  int64_t arrived_ = 0;
  std::map<int64_t, PullSource> fetching_;
  std::vector<int64_t> unsaid_;  // Arrived, and the home does not know.
  std::vector<ChunkSwarm::Failure> failures_;
  uint64_t sequence_;  // Of reports; beyond those of an earlier pull of the object by this node.
  bool asking_ = false;
  Monotonic ask_at_;
  absl::Duration ask_again_ = kAskAgainMin;
  int home_failures_ = 0;
  bool home_refuses_ = false;  // It has said that it cannot give the object, and why.
  absl::Status home_status_;
  std::map<std::string, std::string> others_;       // Endpoints by node.
  std::map<std::string, std::set<int64_t>> lacks_;  // In this round.
  Monotonic round_at_;
  Monotonic progress_;
  bool ended_ = false;
};

}  // namespace troupe
