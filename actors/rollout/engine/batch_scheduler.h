// SPDX-License-Identifier: Apache-2.0
//
// What the engine computes next. Pure: no clock, threads, randomness or tensors.
//
//   waiting --Schedule--> running --Remove--> gone
//      ^                     |
//      +---- preempted ------+   (pages run out, or a new version: its tokens stay and are computed again)

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "actors/model/model_version.h"
#include "actors/rollout/engine/block_manager.h"

namespace troupe::rollout {

struct SchedulerOptions {
  int64_t max_batch_tokens = 512;
  int64_t max_running = 128;
  int64_t num_pages = 0;
  int64_t page_tokens = 16;
};

// Positions [begin, begin + count) of a sequence are computed in this step.
struct ScheduledChunk {
  uint64_t sequence = 0;
  int64_t begin = 0;
  int64_t count = 0;
  bool completes = false;  // its last position is the sequence's last token: a next one is sampled from there
};

// A sequence with the very tokens of chunks[leader], which completes in this step: it shares the leader's pages,
// nothing is computed for it, and its next token is sampled from the leader's logits.
struct Follower {
  uint64_t sequence = 0;
  int64_t leader = 0;
};

struct StepPlan {
  std::vector<PageCopy> copies;  // in this order, before anything is computed
  std::vector<ScheduledChunk> chunks;
  std::vector<Follower> followers;
  int64_t preempted = 0;
  int64_t cached_tokens = 0;  // positions that need no computing: prefix hits and followers
};

// A cycle is: Schedule; run the model; Computed(plan); then for each completed chunk and each follower Append or
// Remove. Between cycles: Add, Remove, RestartAll, KeepPages.
//
// Order: responses that make tokens go first, one token each, so that a long prompt delays them by at most a chunk;
// then running prompts, then waiting ones, all by arrival. When pages run out the latest arrival gives way. A sequence
// keeps its arrival when it is preempted. So the oldest always proceeds, and everything ends.
class BatchScheduler {
 public:
  // max_running is cut to max_batch_tokens, so that a decode step always fits.
  explicit BatchScheduler(const SchedulerOptions& options);

  // `sequence` is new. The caller has checked that its pages, up to its longest, fit the cache (PagesFor).
  void Add(uint64_t sequence, std::vector<int32_t> tokens);
  void Remove(uint64_t sequence);

  // `admit_waiting` false: only what runs goes on (a new version waits for its end).
  StepPlan Schedule(const ModelVersion& version, bool admit_waiting = true);
  // The plan's positions hold keys and values now, computed under `version`.
  void Computed(const StepPlan& plan, const ModelVersion& version);
  void Append(uint64_t sequence, int32_t token);

  // A new version, old pages worthless: everything running waits again, nothing of the cache is left.
  void RestartAll();
  // A new version, old pages kept: running sequences that hold some are mixed from now on and stay out of the prefix
  // cache.
  void KeepPages();

  int64_t PagesFor(int64_t tokens) const;
  std::span<const int32_t> tokens(uint64_t sequence) const;
  std::span<const int32_t> pages(uint64_t sequence) const;
  bool mixed(uint64_t sequence) const;
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t pages_used() const { return blocks_.num_pages() - blocks_.free_pages(); }
  void CheckInvariants() const;

 private:
  struct Sequence {
    uint64_t id = 0;
    int64_t arrival = 0;
    std::vector<int32_t> tokens;
    uint64_t tokens_hash = 0;
    int64_t computed = 0;    // positions [0, computed) hold keys and values
    bool prefilling = true;  // until its last token's position was computed once
    PageTable table;

    int64_t left() const { return static_cast<int64_t>(tokens.size()) - computed; }
  };
  // A running sequence whose prompt is being computed: others with the same tokens wait for it.
  struct Leader {
    const Sequence* sequence = nullptr;
    int64_t chunk = -1;  // the one that completes it in this step; -1 if none does
  };
  using Order = std::map<int64_t, Sequence*>;  // by arrival

  void ContinueRunning(bool prefilling, StepPlan& plan, int64_t& budget);
  void AdmitWaiting(const ModelVersion& version, StepPlan& plan, int64_t& budget);
  static Leader LeaderOf(const Sequence& sequence, const StepPlan& plan);
  bool MakeRoom(Sequence& sequence, int64_t count, StepPlan& plan, int64_t& budget);
  void Preempt(Sequence& sequence, StepPlan& plan, int64_t& budget);
  void AddChunk(Sequence& sequence, int64_t count, StepPlan& plan, int64_t& budget);
  const Sequence& Get(uint64_t sequence) const;
  Sequence& Get(uint64_t sequence);

  SchedulerOptions options_;
  BlockManager blocks_;
  std::unordered_map<uint64_t, Sequence> sequences_;  // nodes are stable
  Order running_;
  Order waiting_;
  int64_t next_arrival_ = 0;
};

}  // namespace troupe::rollout
