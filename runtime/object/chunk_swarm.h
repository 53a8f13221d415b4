// SPDX-License-Identifier: Apache-2.0
// ChunkSwarm: which node sends which chunk of one object to which other node. The deciding part of a broadcast, at the
// object's home: no IO, clock, threads or randomness. A node that has got a chunk is a source of it for others, so that
// the home sends each chunk about once, however many nodes fetch the object.
//
// SWARM-1: a node is named as the source of a chunk only when it has said that it has it. SWARM-2: a source sends a
// chunk to at most kSendsMax of the nodes that are there; since every copy has one sender, some source is always free.
// SWARM-3: a source sends at most kUploadsMax chunks at a time. SWARM-4: a node is sent at most kWindowMax chunks at a
// time, each of them by one source.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/monotonic.h"

namespace troupe {

class ChunkSwarm {
 public:
  // With one a chunk would pass from node to node in a chain; with two its copies double in each turn.
  static constexpr int kSendsMax = 2;
  // Chunks of 1 MiB: as many as keep a line busy, and few enough that one that fails costs little.
  static constexpr int kUploadsMax = 8;
  static constexpr int kWindowMax = 8;
  // Of one object at a time. A node costs about a byte a chunk.
  static constexpr size_t kNodesMax = 1024;
  static constexpr int64_t kChunksMax = 1 << 20;  // 1 TiB.
  // A node that says nothing for so long is gone; those that fetch or serve say something once a second.
  static constexpr absl::Duration kSilentMax = absl::Seconds(15);
  // So long a source is not named again to a node that could not get a chunk from it.
  static constexpr absl::Duration kAvoid = absl::Milliseconds(500);

  // `home` has every chunk.
  ChunkSwarm(std::string home, int64_t chunks);

  struct Failure {
    int64_t chunk = 0;
    std::string source;
    bool lost = false;  // The source does not have it.
  };
  // What a node says.
  struct Report {
    std::string node;
    uint64_t sequence = 0;          // From 1; grows.
    std::vector<int64_t> fetching;  // All that it is getting; what it was told to get besides is not on its way.
    std::vector<int64_t> arrived;
    std::vector<Failure> failed;
    int wanted = 0;
    bool leaves = false;
  };
  struct Send {
    int64_t chunk = 0;
    std::string source;
  };
  // The sends that begin now, towards that node. INVALID_ARGUMENT: a chunk that cannot be, or the home itself.
  // RESOURCE_EXHAUSTED: kNodesMax nodes are there. ABORTED: a later report has been here.
  absl::StatusOr<std::vector<Send>> Step(const Report& report, Monotonic now);
  // Without a report.
  void DropSilent(Monotonic now);

  // All but the home.
  std::vector<std::string> Nodes() const;
  // Whether any node but that one still fetches.
  bool IsFetching(const std::string& but) const;

 private:
  struct Node {
    std::vector<bool> has;
    int64_t had = 0;
    std::map<int64_t, std::string> senders;  // Of what it has got or is getting.
    std::map<int64_t, bool> getting;         // Subset of those.
    std::vector<uint8_t> sends;              // By chunk: to how many nodes that are there.
    int uploads = 0;
    std::map<std::string, Monotonic> avoids;
    uint64_t sequence = 0;
    Monotonic heard;
  };

  absl::Status Check(const Report& report) const;
  void Arrived(Node& node, int64_t chunk);
  void Failed(Node& node, const Failure& failure, Monotonic now);
  void EndOthers(Node& node, const std::vector<int64_t>& fetching);
  // The chunk is not being sent to it any more.
  void EndSend(Node& node, int64_t chunk);
  // Of any but the home.
  void Drop(const std::string& name);
  std::vector<Send> Assign(const std::string& name, Node& node, int wanted, Monotonic now);
  // Of a chunk that the receiver does not have. "": none is free.
  std::string SourceOf(int64_t chunk, const Node& receiver, Monotonic now) const;

  const std::string home_;
  const int64_t chunks_;
  std::map<std::string, Node> nodes_;
  std::vector<int> copies_;  // By chunk: nodes that have it or are getting it.
};

}  // namespace troupe
