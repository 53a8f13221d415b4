// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/batch_scheduler.h"

#include <algorithm>
#include <utility>

#include "runtime/base/check.h"

namespace troupe::rollout {
namespace {

uint64_t HashOf(std::span<const int32_t> tokens) {
  uint64_t hash = 0xCBF29CE484222325 ^ tokens.size();
  for (int32_t token : tokens) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

BatchScheduler::BatchScheduler(const SchedulerOptions& options)
    : options_(options), blocks_(options.num_pages, options.page_tokens) {
  options_.max_running = std::min(options_.max_running, options_.max_batch_tokens);
}

void BatchScheduler::Add(uint64_t id, std::vector<int32_t> tokens) {
  TROUPE_CHECK(!tokens.empty(), "a sequence begins with at least one token");
  const auto [place, added] = sequences_.try_emplace(id);
  TROUPE_CHECK(added, "a sequence is added once");
  Sequence& sequence = place->second;
  sequence.id = id;
  sequence.arrival = next_arrival_++;
  sequence.tokens_hash = HashOf(tokens);
  sequence.tokens = std::move(tokens);
  waiting_.emplace(sequence.arrival, &sequence);
}

void BatchScheduler::Remove(uint64_t id) {
  Sequence& sequence = Get(id);
  blocks_.Release(sequence.table);
  running_.erase(sequence.arrival);
  waiting_.erase(sequence.arrival);
  sequences_.erase(id);
}

StepPlan BatchScheduler::Schedule(const ModelVersion& version, bool admit_waiting) {
  StepPlan plan;
  int64_t budget = options_.max_batch_tokens;
  ContinueRunning(/*prefilling=*/false, plan, budget);
  ContinueRunning(/*prefilling=*/true, plan, budget);
  // Whoever was preempted now would be admitted at once and preempt in turn.
  if (admit_waiting && plan.preempted == 0) AdmitWaiting(version, plan, budget);
  return plan;
}

void BatchScheduler::Computed(const StepPlan& plan, const ModelVersion& version) {
  for (const ScheduledChunk& chunk : plan.chunks) {
    Sequence& sequence = Get(chunk.sequence);
    sequence.computed = chunk.begin + chunk.count;
    const bool prompt_done = chunk.completes && sequence.prefilling;
    if (chunk.completes) sequence.prefilling = false;
    blocks_.Publish(sequence.table, sequence.tokens, sequence.computed, version, prompt_done);
  }
  for (const Follower& follower : plan.followers) {
    Sequence& sequence = Get(follower.sequence);
    sequence.computed = static_cast<int64_t>(sequence.tokens.size());
    sequence.prefilling = false;
    blocks_.Publish(sequence.table, sequence.tokens, sequence.computed, version, false);
  }
}

void BatchScheduler::Append(uint64_t id, int32_t token) { Get(id).tokens.push_back(token); }

void BatchScheduler::RestartAll() {
  while (!running_.empty()) {
    StepPlan ignored;
    int64_t budget = 0;
    Preempt(*running_.rbegin()->second, ignored, budget);
  }
  blocks_.ForgetPrefixes();
}

void BatchScheduler::KeepPages() {
  for (const auto& [arrival, sequence] : running_) {
    if (sequence->computed > 0) sequence->table.cacheable = false;
  }
  blocks_.ForgetPrefixes();
}

int64_t BatchScheduler::PagesFor(int64_t tokens) const {
  return (tokens + options_.page_tokens - 1) / options_.page_tokens;
}

std::span<const int32_t> BatchScheduler::tokens(uint64_t id) const { return Get(id).tokens; }
std::span<const int32_t> BatchScheduler::pages(uint64_t id) const { return Get(id).table.pages; }
bool BatchScheduler::mixed(uint64_t id) const { return !Get(id).table.cacheable; }

void BatchScheduler::CheckInvariants() const {
  std::vector<const PageTable*> tables;
  for (const auto& [id, sequence] : sequences_) {
    tables.push_back(&sequence.table);
    const bool runs = running_.contains(sequence.arrival);
    TROUPE_CHECK(runs != waiting_.contains(sequence.arrival), "SEQ-1: a sequence either runs or waits");
    TROUPE_CHECK(runs || sequence.table.pages.empty(), "SEQ-2: a waiting sequence holds no pages");
    TROUPE_CHECK(PagesFor(sequence.computed) <= static_cast<int64_t>(sequence.table.pages.size()),
                 "SEQ-3: every computed position has a page");
  }
  blocks_.CheckInvariants(tables);
}

void BatchScheduler::ContinueRunning(bool prefilling, StepPlan& plan, int64_t& budget) {
  std::vector<Sequence*> order;  // a copy: preemption changes running_
  for (const auto& [arrival, sequence] : running_) {
    if (sequence->prefilling == prefilling) order.push_back(sequence);
  }
  for (Sequence* sequence : order) {
    if (budget == 0) break;
    if (!running_.contains(sequence->arrival)) continue;  // gave way to an earlier one
    const int64_t count = std::min(sequence->left(), budget);
    if (MakeRoom(*sequence, count, plan, budget)) AddChunk(*sequence, count, plan, budget);
  }
}

void BatchScheduler::AdmitWaiting(const ModelVersion& version, StepPlan& plan, int64_t& budget) {
  std::vector<Leader> leaders;
  for (const auto& [arrival, sequence] : running_) {
    if (sequence->prefilling && sequence->table.cacheable) leaders.push_back(LeaderOf(*sequence, plan));
  }
  for (auto next = waiting_.begin(); next != waiting_.end() && running() < options_.max_running;) {
    Sequence& sequence = *(next++)->second;
    const auto leader = std::find_if(leaders.begin(), leaders.end(), [&](const Leader& other) {
      return other.sequence->tokens_hash == sequence.tokens_hash && other.sequence->tokens == sequence.tokens;
    });
    if (leader != leaders.end()) {
      if (leader->chunk < 0) continue;  // its prompt is being computed already
      blocks_.Share(leader->sequence->table, sequence.table);
      plan.followers.push_back({sequence.id, leader->chunk});
      plan.cached_tokens += sequence.left();
    } else {
      if (budget == 0 && leaders.empty()) break;
      if (budget == 0) continue;
      sequence.computed = blocks_.Attach(sequence.table, sequence.tokens, version);
      const int64_t count = std::min(sequence.left(), budget);
      if (!blocks_.Reserve(sequence.table, sequence.computed, sequence.computed + count, plan.copies)) {
        blocks_.Release(sequence.table);
        sequence.computed = 0;
        break;  // nobody overtakes for want of pages
      }
      plan.cached_tokens += sequence.computed;
      AddChunk(sequence, count, plan, budget);
      leaders.push_back(LeaderOf(sequence, plan));
    }
    waiting_.erase(sequence.arrival);
    running_.emplace(sequence.arrival, &sequence);
  }
}

BatchScheduler::Leader BatchScheduler::LeaderOf(const Sequence& sequence, const StepPlan& plan) {
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    if (plan.chunks[i].sequence == sequence.id && plan.chunks[i].completes) return {&sequence, static_cast<int64_t>(i)};
  }
  return {&sequence, -1};
}

bool BatchScheduler::MakeRoom(Sequence& sequence, int64_t count, StepPlan& plan, int64_t& budget) {
  while (!blocks_.Reserve(sequence.table, sequence.computed, sequence.computed + count, plan.copies)) {
    Sequence& victim = *running_.rbegin()->second;
    const bool itself = &victim == &sequence;
    Preempt(victim, plan, budget);
    if (itself) return false;
  }
  return true;
}

void BatchScheduler::Preempt(Sequence& sequence, StepPlan& plan, int64_t& budget) {
  std::erase_if(plan.chunks, [&](const ScheduledChunk& chunk) {
    if (chunk.sequence != sequence.id) return false;
    budget += chunk.count;
    return true;
  });
  blocks_.Release(sequence.table);
  sequence.computed = 0;
  sequence.prefilling = true;
  sequence.tokens_hash = HashOf(sequence.tokens);
  running_.erase(sequence.arrival);
  waiting_.emplace(sequence.arrival, &sequence);
  ++plan.preempted;
}

void BatchScheduler::AddChunk(Sequence& sequence, int64_t count, StepPlan& plan, int64_t& budget) {
  plan.chunks.push_back({sequence.id, sequence.computed, count, count == sequence.left()});
  budget -= count;
}

const BatchScheduler::Sequence& BatchScheduler::Get(uint64_t id) const {
  const auto found = sequences_.find(id);
  TROUPE_CHECK(found != sequences_.end(), "the scheduler knows every sequence of the engine");
  return found->second;
}

BatchScheduler::Sequence& BatchScheduler::Get(uint64_t id) {
  return const_cast<Sequence&>(static_cast<const BatchScheduler*>(this)->Get(id));
}

}  // namespace troupe::rollout
