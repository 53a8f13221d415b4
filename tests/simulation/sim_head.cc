// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_head.h"

#include "scheduler/core/invariants.h"

namespace troupe::simulation {

using scheduler::ClusterState;

namespace {

constexpr int64_t kRecordsPerSnapshot = 40;  // Often, so that recovery from snapshots is seen.

ClusterState Recover(const scheduler::RecordStore::Contents& contents) {
  ClusterState state = ClusterState::FromSnapshot(contents.snapshot);
  for (const v1::Record& record : contents.records) state.Apply(record);
  return state;
}

}  // namespace

void SimHead::Start() {
  Require(!up(), "the simulation starts a head once");
  ++life_;
  stepped_down_ = committing_ = false;
  decisions_in_flight_ = 0;
  stalled_until_ = Monotonic();
  store_ = std::make_unique<scheduler::MemoryStore>(&disk_);
  scheduler::RecordStore::Contents contents = store_->Load().value();
  replayed_ = Recover(contents);
  Require(replayed_.ToSnapshot().SerializeAsString() == durable_.ToSnapshot().SerializeAsString(),
          "LOG-5: recovery gives what was durable");
  cluster_.emplace(options_, replayed_);
  Step(scheduler::StartTerm{});
}

void SimHead::Crash() {
  if (!up()) return;
  ++life_;
  stepped_down_ = false;
  cluster_.reset();
  calls_.clear();
  // What the disk had in hand may have become durable or not: a prefix of the batches.
  while (!store_->idle() && simulator_->Chance(50)) store_->CommitNext();
  store_.reset();
  for (auto& [id, link] : std::exchange(links_, {})) link->Break();
}

void SimHead::Deliver(scheduler::Event event) {
  if (!up()) return;
  if (simulator_->now() < stalled_until_) {
    // Waits in the socket; order is kept by the simulator.
    simulator_->At(stalled_until_, [this, life = life_, event = std::move(event)] {
      if (life == life_) Deliver(event);
    });
    return;
  }
  if (auto* message = std::get_if<scheduler::FromNode>(&event)) {
    message->received = simulator_->now();
    auto link = links_.find(message->session);
    const v1::AgentToHead& said = message->messages.messages(0);  // Links carry one at a time.
    if (said.has_heartbeat() && link != links_.end()) {
      v1::HeadToAgent reply;
      reply.mutable_heartbeat_reply()->set_sequence(said.heartbeat().sequence());
      reply.mutable_heartbeat_reply()->set_term(cluster_->term());
      link->second->ToNode(std::move(reply));
    }
  }
  if (Tracing() && std::holds_alternative<scheduler::FromNode>(event)) {
    const auto& from = std::get<scheduler::FromNode>(event);
    if (!from.messages.messages(0).has_heartbeat()) {
      Trace(simulator_->now(), "head gets " + std::to_string(from.session) + " " + from.messages.ShortDebugString());
    }
  }
  Step(event);
}

void SimHead::Call(std::function<scheduler::Event(scheduler::CallId)> make,
                   std::function<void(scheduler::Answer)> answered) {
  if (!up()) return;
  scheduler::CallId call = ++last_call_;
  calls_[call] = std::move(answered);
  Deliver(make(call));
}

void SimHead::LinkClosed(scheduler::SessionId id) {
  if (links_.erase(id) > 0) Deliver(scheduler::SessionClosed{id});
}

void SimHead::Step(const scheduler::Event& event) {
  ++steps_;
  scheduler::StepResult result =
      cluster_->Step(event, {simulator_->now(), simulator_->now().nanoseconds() / 1'000'000});
  if (!result.records.empty()) {
    ClusterState before = replayed_;
    for (const v1::Record& record : result.records) {
      if (Tracing()) Trace(simulator_->now(), "head decides " + record.ShortDebugString());
      replayed_.Apply(record);
    }
    Check(before);
  }
  const std::string stale = cluster_->StaleIndex();
  Require(stale.empty(), stale);
  records_since_snapshot_ += static_cast<int64_t>(result.records.size());
  std::vector<scheduler::Action> at_once;
  if (decisions_in_flight_ == 0) {
    at_once.swap(result.observed);
  } else {
    Append({}, false, std::move(result.observed));
  }
  Append(std::move(result.records), result.decides, std::move(result.actions));
  for (scheduler::Action& action : at_once) Act(std::move(action));
  if (records_since_snapshot_ >= kRecordsPerSnapshot) {
    records_since_snapshot_ = 0;
    store_->Snapshot(cluster_->state().ToSnapshot(), [](absl::Status) {});
  }
  CommitLater();
  TickLater();
}

void SimHead::Append(std::vector<v1::Record> records, bool decides, std::vector<scheduler::Action> actions) {
  decisions_in_flight_ += decides;
  std::vector<v1::Record> batch = records;
  store_->Append(std::move(records), [this, life = life_, batch = std::move(batch), decides,
                                      actions = std::move(actions)](const absl::Status& status) mutable {
    if (!status.ok()) {
      stepped_down_ = stepped_down_ || life == life_;
      return;
    }
    for (const v1::Record& record : batch) durable_.Apply(record);
    if (life != life_ || stepped_down_) return;
    decisions_in_flight_ -= decides;
    for (scheduler::Action& action : actions) Act(std::move(action));
  });
}

void SimHead::Check(const ClusterState& before) {
  std::string decided = cluster_->state().ToSnapshot().SerializeAsString();
  Require(decided == replayed_.ToSnapshot().SerializeAsString(), "LOG-3: replayed records give the same state");
  Require(decided == ClusterState::FromSnapshot(replayed_.ToSnapshot()).ToSnapshot().SerializeAsString(),
          "LOG-4: a snapshot is the state");
  for (const std::string& broken : scheduler::BrokenInvariants(replayed_)) Require(false, broken);
  for (const std::string& broken : scheduler::BrokenByChange(before, replayed_)) Require(false, broken);
}

void SimHead::CommitLater() {
  if (committing_ || store_->idle()) return;
  committing_ = true;
  absl::Duration latency = slow_disk_ ? simulator_->Between(absl::Milliseconds(100), absl::Seconds(2))
                                      : simulator_->Between(absl::Microseconds(100), absl::Milliseconds(3));
  simulator_->After(latency, [this, life = life_] {
    if (life != life_) return;
    committing_ = false;
    // One sync covers what had come in.
    for (int64_t n = simulator_->Between(1, 8); n > 0 && !store_->idle(); --n) store_->CommitNext();
    if (stepped_down_) return;
    CommitLater();
  });
}

void SimHead::TickLater() {
  Monotonic wake = cluster_->NextWake();
  if (wake.infinite()) return;
  simulator_->At(wake, [this, life = life_, tick = ++tick_] {
    if (life == life_ && tick == tick_) Deliver(scheduler::Tick{});
  });
}

void SimHead::Act(scheduler::Action action) {
  if (auto* answer = std::get_if<scheduler::Answer>(&action)) {
    auto call = calls_.extract(answer->call);
    if (!call.empty()) call.mapped()(*answer);
  } else if (auto* publish = std::get_if<scheduler::PublishJob>(&action)) {
    reasons_[publish->job_id] = publish->job == nullptr ? "forgotten" : publish->job->reason();
  } else if (auto* send = std::get_if<scheduler::SendToNode>(&action)) {
    if (auto link = links_.find(send->session); link != links_.end()) link->second->ToNode(send->message);
  } else if (auto* close = std::get_if<scheduler::CloseSession>(&action)) {
    Trace(simulator_->now(), "head closes " + std::to_string(close->session) + " " + close->reason.ToString());
    if (auto link = links_.extract(close->session); !link.empty()) link.mapped()->CloseByHead();
  }
}

}  // namespace troupe::simulation
