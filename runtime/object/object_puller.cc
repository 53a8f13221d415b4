// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_puller.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/object/chunk_wire.h"
#include "runtime/object/exchange_wire.h"

namespace troupe {
namespace {

// How often it looks at what it has: without pulls, with offers, while chunks are waited for.
constexpr absl::Duration kIdleTick = absl::Seconds(1);
constexpr absl::Duration kOfferTick = absl::Milliseconds(100);
constexpr absl::Duration kFetchTick = absl::Milliseconds(5);
constexpr absl::Duration kOfferPeriod = absl::Seconds(1);
constexpr absl::Duration kFiguresPeriod = absl::Seconds(1);

}  // namespace

ObjectPuller::ObjectPuller(ObjectPullerOptions options, std::shared_ptr<ObjectStore> store, ExchangeService& service)
    : options_(std::move(options)),
      session_(RandomUint64() | 1),
      store_(std::move(store)),
      service_(service),
      thread_([this] { Loop(); }) {}

ObjectPuller::~ObjectPuller() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  MutexLock lock(mutex_);
  for (const auto& context : contexts_) context->TryCancel();
  changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return contexts_.empty(); });
}

void ObjectPuller::Take(const v1::ElsewhereNotice& notice) {
  MutexLock lock(mutex_);
  events_.push_back(notice);
  changed_.NotifyAll();
}

ObjectPuller::Figures ObjectPuller::figures() const {
  MutexLock lock(mutex_);
  return figures_;
}

// ---- The thread ----

void ObjectPuller::Loop() {
  Monotonic tick_at = MonotonicNow();
  while (true) {
    std::deque<Event> events;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, tick_at, [&] { return stop_ || !events_.empty(); });
      if (stop_) return;
      events.swap(events_);
    }
    for (Event& event : events) std::visit([&](auto& e) { Handle(e); }, event);
    Monotonic now = MonotonicNow();
    Tick(now);
    bool fetching = std::any_of(pulls_.begin(), pulls_.end(), [](const auto& pull) { return !pull.second.ended; });
    tick_at = now + (fetching ? kFetchTick : pulls_.empty() ? kIdleTick : kOfferTick);
    MutexLock lock(mutex_);
    figures_.fetching = pulls_.size();
  }
}

void ObjectPuller::Handle(v1::ElsewhereNotice& notice) {
  ObjectId id = ObjectId::FromProto(notice.name());
  if (notice.what() == v1::ElsewhereNotice::RELEASE) {
    auto home = homes_.find(id);
    if (home == homes_.end()) return;
    if (auto holds = holds_.find(home->second.endpoint()); holds != holds_.end()) holds->second.Drop(id);
    homes_.erase(home);
    // One that has been fetched may be offered on for a while.
    auto pull = pulls_.find(id);
    if (pull != pulls_.end() && !pull->second.ended) Abandon(id, pull->second);
    return;
  }
  homes_[id] = notice.home();
  bool told = true;
  if (!notice.home().endpoint().empty()) {
    told = holds_[notice.home().endpoint()].Add(id, notice.home().size_bytes());
  }
  if (told) store_->TellElsewhere(id, nullptr, absl::OkStatus());
  if (notice.what() == v1::ElsewhereNotice::FETCH) Fetch(id, notice.home());
}

void ObjectPuller::Tick(Monotonic now) {
  std::vector<ObjectId> ended;
  for (auto& [id, pull] : pulls_) {
    if (!pull.ended) {
      if (pull.state.has_value()) Step(id, pull, PullTick());
      continue;
    }
    bool wanted = !pull.alone && now - pull.offered->used() <= kOfferMax;
    if (pull.plans > 0) continue;
    if (!wanted) {
      ended.push_back(id);
    } else if (now >= pull.report_at) {
      SendPlan(id, pull, pull.state->OfferReport());
    }
  }
  for (const ObjectId& id : ended) EndOffer(id);
  BeginWaiting();
  for (auto it = holds_.begin(); it != holds_.end();) {
    SayHolds(it->first, it->second, now);
    it = it->second.idle() ? holds_.erase(it) : std::next(it);
  }
  service_.Tick(now);
  if (now >= tell_figures_at_) TellFigures(now);
}

void ObjectPuller::TellFigures(Monotonic now) {
  tell_figures_at_ = now + kFiguresPeriod;
  ExchangeService::Figures given = service_.figures();
  v1::NodeObjectFigures figures;
  figures.set_sent_bytes(given.sent_bytes);
  figures.set_held_elsewhere(static_cast<int64_t>(given.held));
  {
    MutexLock lock(mutex_);
    figures.set_fetched_bytes(figures_.fetched_bytes);
    figures.set_refused_chunks(figures_.refused_chunks);
    figures.set_fetching(static_cast<int64_t>(figures_.fetching));
  }
  std::string text = figures.SerializeAsString();
  if (text == told_figures_) return;
  told_figures_ = std::move(text);
  store_->TellFigures(figures);
}

// ---- Holds ----

void ObjectPuller::Handle(HoldDone& done) {
  auto holds = holds_.find(done.endpoint);
  if (holds == holds_.end()) return;
  if (!done.status.ok()) return holds->second.Failed(MonotonicNow());
  for (const ObjectId& id : holds->second.Answered(done.known, MonotonicNow())) {
    store_->TellElsewhere(id, nullptr, absl::OkStatus());
  }
}

// ---- Pulls ----

void ObjectPuller::Fetch(const ObjectId& id, const v1::ObjectHome& home) {
  auto [pull, is_new] = pulls_.try_emplace(id);
  if (!is_new && !pull->second.ended) return;
  if (!is_new && pull->second.target != nullptr && pull->second.target->pin.handle() != nullptr) {
    // Nobody here wanted it any more, but it is offered still.
    return store_->TellElsewhere(id, &pull->second.target->pin.handle()->id(), absl::OkStatus());
  }
  if (!is_new) {
    EndOffer(id);
    pull = pulls_.try_emplace(id).first;
  }
  pull->second.home = home;
  pull->second.number = ++pulls_made_;
  waiting_.push_back(id);
}

void ObjectPuller::BeginWaiting() {
  auto active = static_cast<size_t>(std::count_if(pulls_.begin(), pulls_.end(), [](const auto& pull) {
    return pull.second.state.has_value() && !pull.second.ended;
  }));
  for (; !waiting_.empty() && active < kPullsMax; waiting_.pop_front()) {
    ObjectId id = waiting_.front();
    auto found = pulls_.find(id);
    if (found == pulls_.end() || found->second.state.has_value() || found->second.ended) continue;
    absl::Status begun = Begin(id, found->second);
    if (!begun.ok()) {
      store_->TellElsewhere(id, nullptr, begun);
      pulls_.erase(found);
      continue;
    }
    ++active;
    Step(id, found->second, PullTick());
  }
}

absl::Status ObjectPuller::Begin(const ObjectId& id, Pull& pull) {
  const std::string& node = pull.home.node_id();
  if (pull.home.endpoint().empty()) {
    return absl::FailedPreconditionError(id.ToString() + " lies on node " + node +
                                         ", which serves no other nodes: its agent is reached through a Unix socket "
                                         "only; join it with --head HOST:PORT");
  }
  if (pull.home.size_bytes() < 0 || ChunksOf(pull.home.size_bytes()) > ChunkSwarm::kChunksMax) {
    return absl::InvalidArgumentError(id.ToString() + " has a size that cannot be");
  }
  absl::StatusOr<ObjectBuffer> buffer = store_->Allocate(pull.home.size_bytes());
  if (absl::IsResourceExhausted(buffer.status())) {
    // What is only offered to others has to make room.
    for (auto& [other, offer] : pulls_) {
      if (offer.ended) Abandon(other, offer);
    }
    buffer = store_->Allocate(pull.home.size_bytes());
  }
  if (!buffer.ok()) return Annotate(buffer.status(), "no room for " + id.ToString() + " of node " + node);
  pull.target = std::make_shared<Target>();
  pull.target->buffer = *std::move(buffer);
  pull.target->bytes = pull.target->buffer.bytes();
  pull.offered = std::make_shared<OfferedObject>(pull.target->bytes, pull.target, false);
  service_.Offer(id, pull.offered);
  pull.state.emplace(pull.offered->chunks(), id.ToString() + " of node " + node + " at " + pull.home.endpoint(),
                     MonotonicNow());
  return absl::OkStatus();
}

void ObjectPuller::Step(const ObjectId& id, Pull& pull, const PullEvent& event) {
  for (const PullAction& action : pull.state->Step(event, MonotonicNow())) {
    std::visit([&](const auto& a) { Do(id, pull, a); }, action);
  }
}

void ObjectPuller::Do(const ObjectId& id, Pull& pull, const AskPlan& action) { SendPlan(id, pull, action.report); }

void ObjectPuller::Handle(PlanDone& done) {
  auto found = pulls_.find(done.id);
  if (found == pulls_.end() || found->second.number != done.pull) return;
  Pull& pull = found->second;
  --pull.plans;
  if (pull.ended) {
    pull.report_at = MonotonicNow() + kOfferPeriod;
    pull.alone = pull.alone || !done.status.ok() || done.response.alone();
    return;
  }
  if (done.status.ok()) pull.alone = done.response.alone();
  absl::StatusOr<PlanCame> plan = done.status.ok() ? PlanOf(done.response) : absl::StatusOr<PlanCame>(done.status);
  if (plan.ok()) {
    Step(done.id, pull, *std::move(plan));
  } else {
    Step(done.id, pull, PlanFailed{plan.status()});
  }
}

void ObjectPuller::Handle(ChunkDone& done) {
  {
    MutexLock lock(mutex_);
    if (absl::IsDataLoss(done.status)) ++figures_.refused_chunks;
  }
  auto found = pulls_.find(done.id);
  if (found == pulls_.end() || found->second.number != done.pull) return;
  Pull& pull = found->second;
  pull.rpcs.erase(done.chunk);
  if (pull.ended) return;
  if (!done.status.ok()) return Step(done.id, pull, ChunkFailed{done.chunk, done.status});
  pull.offered->Offer(done.chunk);
  {
    MutexLock lock(mutex_);
    figures_.fetched_bytes += static_cast<int64_t>(ChunkOf(pull.target->bytes, done.chunk).size());
  }
  Step(done.id, pull, ChunkCame{done.chunk});
}

void ObjectPuller::Do(const ObjectId& id, Pull& pull, const PullEnded& action) {
  absl::Status status = action.status;
  if (status.ok()) {
    pull.target->pin = std::move(pull.target->buffer).SealAndPin();
    // In a file also when it is small: other processes are to read it.
    ObjectWire wire = store_->Describe(pull.target->pin.handle(), ObjectStore::kInlineMessageBytes + 1, true);
    if (wire.is_inline) status = absl::ResourceExhaustedError("no room for " + id.ToString());
    if (status.ok()) store_->TellElsewhere(id, &wire.id, status);
  }
  if (!status.ok()) store_->TellElsewhere(id, nullptr, status);
  // Its end, whichever, is the next tick's to tidy up: who called goes on with it.
  pull.ended = true;
  pull.offered->Use(MonotonicNow());
  if (pull.alone || !status.ok()) Abandon(id, pull);
}

void ObjectPuller::Abandon(const ObjectId& id, Pull& pull) {
  for (auto& [chunk, rpc] : pull.rpcs) {
    if (std::shared_ptr<grpc::ClientContext> context = rpc.lock()) context->TryCancel();
  }
  if (pull.offered != nullptr) service_.Withdraw(id, pull.offered.get());
  pull.ended = true;
  pull.alone = true;
  // From now on the store may spill what was fetched.
  pull.offered = nullptr;
  pull.target = nullptr;
}

void ObjectPuller::EndOffer(const ObjectId& id) {
  auto found = pulls_.find(id);
  Pull& pull = found->second;
  Abandon(id, pull);
  if (pull.state.has_value()) {
    ChunkSwarm::Report leave = pull.state->OfferReport();
    leave.leaves = true;
    SendPlan(id, pull, leave);
  }
  pulls_.erase(found);
}

}  // namespace troupe
