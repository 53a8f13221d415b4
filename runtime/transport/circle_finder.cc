// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/circle_finder.h"

#include <deque>
#include <optional>
#include <utility>

#include "troupe/v1/actor.pb.h"

namespace troupe {
namespace {

using Kind = CircleFinder::Action::Kind;

bool IsDue(uint64_t age) { return (age & (age - 1)) == 0 || age % CircleFinder::kTicksBetweenMax == 0; }

}  // namespace

std::string CircleProbe::Encode() const {
  v1::WaitProbe proto;
  proto.set_number(number);
  for (const CircleStep& step : steps) {
    v1::WaitStep& to = *proto.add_steps();
    *to.mutable_waiter() = step.life.ToProto();
    to.set_wait(step.wait);
    to.set_call(step.call);
  }
  *proto.mutable_target() = target.ToProto();
  proto.set_unconfirmed(static_cast<uint32_t>(unconfirmed));
  return proto.SerializeAsString();
}

absl::StatusOr<CircleProbe> CircleProbe::Decode(const std::string& bytes) {
  v1::WaitProbe proto;
  if (!proto.ParseFromString(bytes)) return absl::InvalidArgumentError("a probe of waits that cannot be read");
  auto count = static_cast<size_t>(proto.steps_size());
  if (count == 0 || count > CircleFinder::kStepsMax || proto.unconfirmed() > count) {
    return absl::InvalidArgumentError("a probe of " + std::to_string(count) + " waits, of which " +
                                      std::to_string(proto.unconfirmed()) + " are to be confirmed");
  }
  CircleProbe probe;
  probe.number = proto.number();
  for (const v1::WaitStep& step : proto.steps()) {
    probe.steps.push_back({ActorLife::FromProto(step.waiter()), step.wait(), step.call()});
  }
  probe.target = ActorLife::FromProto(proto.target());
  probe.unconfirmed = proto.unconfirmed();
  return probe;
}

CircleFinder::Actions CircleFinder::Tick() {
  ++ticks_;
  std::erase_if(traces_, [this](const auto& trace) { return trace.second.tick + kTraceTicks < ticks_; });
  std::map<uint64_t, uint64_t> ages;
  Actions actions;
  for (const ActorLife& life : waits_.Waiting(mark_)) {
    std::optional<WaitGraph::Wait> wait = waits_.Find(life);
    if (!wait.has_value() || wait->number > mark_) continue;
    uint64_t age = ages[wait->number] = ages_[wait->number] + 1;
    if (!IsDue(age)) continue;
    CircleProbe probe;
    probe.number = ++probes_made_;
    probe.target = life;
    if (Trace* trace = TraceOf({life, wait->number, probe.number})) SendOn(std::move(probe), *trace, actions);
  }
  ages_ = std::move(ages);
  mark_ = waits_.Begun();
  return actions;
}

CircleFinder::Trace* CircleFinder::TraceOf(const Key& key) {
  auto found = traces_.find(key);
  if (found == traces_.end()) {
    if (traces_.size() >= kTracesMax) return nullptr;
    found = traces_.emplace(key, Trace()).first;
  }
  found->second.tick = ticks_;
  return &found->second;
}

CircleFinder::Actions CircleFinder::TakeProbe(CircleProbe probe, uint64_t session) {
  Actions actions;
  const CircleStep& first = probe.steps.front();
  if (probe.target == first.life) {
    probe.unconfirmed = probe.steps.size();
    std::optional<WaitGraph::Wait> wait = waits_.Find(first.life);
    bool waits = wait.has_value() && wait->number == first.wait;
    if (waits) actions.push_back({Kind::kConfirm, session, std::move(probe), ""});
    return actions;
  }
  Trace* trace = TraceOf({first.life, first.wait, probe.number});
  if (trace == nullptr || trace->seen.count(probe.target) > 0) return actions;
  trace->sessions[probe.target] = session;
  SendOn(std::move(probe), *trace, actions);
  return actions;
}

// Breadth first, each actor once: the first way that leads to it is as good as any.
void CircleFinder::SendOn(CircleProbe probe, Trace& trace, Actions& actions) {
  std::deque<CircleProbe> open;
  open.push_back(std::move(probe));
  while (!open.empty()) {
    CircleProbe at = std::move(open.front());
    open.pop_front();
    const ActorLife life = at.target;
    if (at.steps.size() >= kStepsMax || !trace.seen.insert(life).second) continue;
    if (!at.steps.empty() && at.steps.front().life < life) continue;  // It finds the circle itself, if there is one.
    std::optional<WaitGraph::Wait> wait = waits_.Find(life);
    if (!wait.has_value()) continue;
    at.steps.push_back({life, wait->number, 0});
    for (const WaitedCall& call : wait->calls) {
      CircleProbe next = at;
      next.steps.back().call = call.call;
      next.target = call.target;
      const CircleStep& first = next.steps.front();
      std::optional<WaitGraph::Wait> there = waits_.Find(call.target);
      if (!there.has_value()) {
        actions.push_back({Kind::kProbe, call.call, std::move(next), ""});
      } else if (call.target != first.life) {
        open.push_back(std::move(next));
      } else if (there->number == first.wait) {
        next.unconfirmed = next.steps.size();
        Confirm(std::move(next), actions);
      }
    }
  }
}

bool CircleFinder::Holds(const CircleStep& step) const {
  std::optional<WaitGraph::Wait> wait = waits_.Find(step.life);
  if (!wait.has_value() || wait->number != step.wait) return false;
  for (const WaitedCall& call : wait->calls) {
    if (call.call == step.call) return true;
  }
  return false;
}

CircleFinder::Actions CircleFinder::TakeConfirm(CircleProbe probe) {
  Actions actions;
  if (probe.unconfirmed > 0) Confirm(std::move(probe), actions);
  return actions;
}

// Looks at the steps of this process again, from the last unconfirmed one down to the one at which the probe came in.
// Beyond it would be one that does not wait here.
void CircleFinder::Confirm(CircleProbe probe, Actions& actions) {
  const CircleStep& first = probe.steps.front();
  auto trace = traces_.find(Key{first.life, first.wait, probe.number});
  while (Holds(probe.steps[probe.unconfirmed - 1])) {
    const ActorLife& life = probe.steps[--probe.unconfirmed].life;
    if (probe.unconfirmed == 0) {
      std::vector<ActorLife> circle;
      for (const CircleStep& step : probe.steps) circle.push_back(step.life);
      circle.push_back(first.life);
      std::string text = "these actors of several processes wait for each other for ever: " + CircleText(circle);
      const uint64_t call = first.call;
      actions.push_back({Kind::kFound, call, std::move(probe), std::move(text)});
      return;
    }
    if (trace == traces_.end()) continue;
    auto session = trace->second.sessions.find(life);
    if (session == trace->second.sessions.end()) continue;  // It was reached within this process.
    actions.push_back({Kind::kConfirm, session->second, std::move(probe), ""});
    return;
  }
}

}  // namespace troupe
