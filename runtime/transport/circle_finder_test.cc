// SPDX-License-Identifier: Apache-2.0
// Actors of several processes that call each other at random, under seeds: whatever is told as a circle was one, and
// none is left. Calls and replies of a session keep their order; sessions do not wait for each other.
#include "runtime/transport/circle_finder.h"

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>

namespace troupe {
namespace {

using Kind = CircleFinder::Action::Kind;

struct Message {
  enum class Kind { kCall, kReply, kProbe, kConfirm };
  Kind kind = Kind::kCall;
  int from = 0, to = 0;  // Actors of a call; of a reply, the one that calls and the one that answers.
  uint64_t call = 0;
  CircleProbe probe;
};

struct SimActor {
  enum class State { kIdle, kRuns, kWaits };
  ActorLife life;
  int process = 0;
  State state = State::kIdle;
  std::deque<Message> mailbox;
  Message handles;  // Unless idle; its `from` is -1 for what comes from outside.
  uint64_t wait = 0;
  std::map<uint64_t, int> open;  // Calls without an answer, and whom they went to.
  int calls_left = 0;
};

class World {
 public:
  World(uint64_t seed, int processes, int actors, bool times_out)
      : random_(seed), times_out_(times_out), graphs_(processes) {
    for (auto& graph : graphs_) {
      graph = std::make_unique<WaitGraph>();
      finders_.push_back(std::make_unique<CircleFinder>(*graph));
    }
    for (int i = 0; i < actors; ++i) {
      SimActor& actor = actors_.emplace_back();
      actor.life = {{JobId("job"), "actor", i}, 1};
      actor.process = Draw(processes);
    }
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      int choice = Draw(20);
      if (choice == 0) {
        Begin(Draw(static_cast<int>(actors_.size())));
      } else if (choice == 1) {
        Tick(Draw(static_cast<int>(finders_.size())));
      } else if (choice < 12) {
        DeliverOne();
      } else {
        Act(Draw(static_cast<int>(actors_.size())));
      }
    }
  }
  // Until nothing is left to do but to find circles, and those too.
  void Settle() {
    settles_ = true;
    for (auto& actor : actors_) actor.calls_left = 0;
    for (int round = 0; round < 400; ++round) {
      for (size_t i = 0; i < actors_.size(); ++i) Act(static_cast<int>(i));
      while (DeliverOne()) continue;
      for (size_t i = 0; i < finders_.size(); ++i) Tick(static_cast<int>(i));
    }
  }
  int waiting() const {
    int count = 0;
    for (const SimActor& actor : actors_) count += actor.state == SimActor::State::kWaits;
    return count;
  }

  int found = 0;       // Circles that were told.
  int false_ones = 0;  // Of those, what was none.
  int suspected = 0;   // Ways round that a probe went.

 private:
  using Channel = std::tuple<int, int, bool>;  // The process that dialed, the other, and whether towards that.
  int Draw(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }
  uint64_t SessionOf(int dialer) const { return static_cast<uint64_t>(dialer) + 100; }

  // A message from outside.
  void Begin(int to) {
    if (actors_[to].mailbox.size() < 3) actors_[to].mailbox.push_back({Message::Kind::kCall, -1, to, 0, {}});
  }

  void Act(int index) {
    SimActor& actor = actors_[index];
    if (actor.state == SimActor::State::kIdle && !actor.mailbox.empty()) {
      actor.handles = actor.mailbox.front();
      actor.mailbox.pop_front();
      actor.state = SimActor::State::kRuns;
      actor.calls_left = !settles_ && Draw(5) < 2 ? 1 : 0;  // On average less than a call, so that there is an end.
    } else if (actor.state == SimActor::State::kRuns) {
      actor.calls_left-- > 0 ? CallOthers(index) : Answer(index);
    } else if (actor.state == SimActor::State::kWaits && times_out_ && Draw(60) == 0) {
      GoOn(actor);  // It does not wait any longer; the calls may still be answered.
    }
  }
  void CallOthers(int index) {
    SimActor& actor = actors_[index];
    std::vector<WaitedCall> calls;
    for (int n = Draw(2); n >= 0; --n) {
      calls.push_back({actors_[Draw(static_cast<int>(actors_.size()))].life, ++calls_});
    }
    absl::StatusOr<uint64_t> wait = graphs_[actor.process]->Begin(actor.life, calls);
    if (!wait.ok()) return;  // A circle within the process.
    actor.wait = *wait;
    actor.state = SimActor::State::kWaits;
    for (const WaitedCall& call : calls) {
      int to = call.target.path.replica;
      actor.open[call.call] = to;
      unanswered_[call.call] = true;
      Send(true, actor.process, actors_[to].process, {Message::Kind::kCall, index, to, call.call, {}});
    }
  }
  void Answer(int index) {
    SimActor& actor = actors_[index];
    actor.state = SimActor::State::kIdle;
    const Message& call = actor.handles;
    if (call.from < 0) return;
    unanswered_[call.call] = false;
    Send(false, actors_[call.from].process, actor.process, {Message::Kind::kReply, call.from, index, call.call, {}});
  }
  void GoOn(SimActor& actor) {
    graphs_[actor.process]->End(actor.life, actor.wait);
    actor.open.clear();
    actor.state = SimActor::State::kRuns;
  }

  // Within a process at once.
  void Send(bool forward, int dialer, int other, Message message) {
    if (dialer == other) return Take(dialer, other, message);
    channels_[{dialer, other, forward}].push_back(std::move(message));
  }
  bool DeliverOne() {
    std::vector<Channel> ready;
    for (const auto& [channel, messages] : channels_) {
      if (!messages.empty()) ready.push_back(channel);
    }
    if (ready.empty()) return false;
    auto [dialer, other, forward] = ready[Draw(static_cast<int>(ready.size()))];
    Message message = std::move(channels_[{dialer, other, forward}].front());
    channels_[{dialer, other, forward}].pop_front();
    Take(dialer, other, message);
    return true;
  }
  void Take(int dialer, int other, Message& message) {
    switch (message.kind) {
      case Message::Kind::kCall:
        return actors_[message.to].mailbox.push_back(message);
      case Message::Kind::kReply:
        return TakeAnswer(actors_[message.from], message.call);
      case Message::Kind::kProbe:
        return Do(other, finders_[other]->TakeProbe(std::move(message.probe), SessionOf(dialer)));
      case Message::Kind::kConfirm:
        return Do(dialer, finders_[dialer]->TakeConfirm(std::move(message.probe)));
    }
  }
  void TakeAnswer(SimActor& actor, uint64_t call) {
    if (actor.open.erase(call) == 0) return;
    graphs_[actor.process]->Answered(actor.life, actor.wait, call);
    if (actor.open.empty()) GoOn(actor);
  }

  void Tick(int process) { Do(process, finders_[process]->Tick()); }
  void Do(int process, CircleFinder::Actions actions) {
    for (CircleFinder::Action& action : actions) {
      if (action.kind == Kind::kProbe) {
        int to = action.probe.target.path.replica;
        if (actors_[to].process == process) continue;
        Message message{Message::Kind::kProbe, 0, to, action.to, CircleProbe::Decode(action.probe.Encode()).value()};
        Send(true, process, actors_[to].process, std::move(message));
      } else if (action.kind == Kind::kConfirm) {
        Suspect(action.probe);
        Send(false, static_cast<int>(action.to) - 100, process, {Message::Kind::kConfirm, 0, 0, 0, action.probe});
      } else {
        ++found;
        false_ones += !true_circles_.at(KeyOf(action.probe));
        for (SimActor& actor : actors_) {  // Its wait ends with the error.
          if (actor.process == process && actor.open.count(action.to) > 0) TakeAnswer(actor, action.to);
        }
      }
    }
  }
  static std::string KeyOf(CircleProbe probe) {
    probe.unconfirmed = 0;
    return probe.Encode();
  }
  // A confirm. Of the first one: whether what the probe has found is true at this moment, as nobody within could know.
  void Suspect(const CircleProbe& probe) {
    if (true_circles_.count(KeyOf(probe)) > 0) return;
    ++suspected;
    bool is_true = true;
    for (const CircleStep& step : probe.steps) {
      const SimActor& actor = actors_[step.life.path.replica];
      is_true = is_true && actor.state == SimActor::State::kWaits && actor.wait == step.wait && unanswered_[step.call];
    }
    true_circles_[KeyOf(probe)] = is_true;
  }

  std::mt19937_64 random_;
  const bool times_out_;
  bool settles_ = false;
  std::vector<std::unique_ptr<WaitGraph>> graphs_;
  std::vector<std::unique_ptr<CircleFinder>> finders_;
  std::deque<SimActor> actors_;
  std::map<Channel, std::deque<Message>> channels_;
  uint64_t calls_ = 0;
  std::map<uint64_t, bool> unanswered_;  // By call: whether its target has not answered it.
  std::map<std::string, bool> true_circles_;
};

TEST_CASE("CircleFinder: every circle of waits is found, and nothing else, whatever comes late", "[circles]") {
  int found = 0, suspected = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    int processes = 2 + static_cast<int>(seed % 4), actors = 3 + static_cast<int>(seed % 7);
    World world(seed, processes, actors, false);
    world.Run(3000);
    world.Settle();
    INFO("seed " << seed);
    CHECK(world.false_ones == 0);
    REQUIRE(world.waiting() == 0);
    found += world.found;
    suspected += world.suspected;
  }
  CHECK(found > 1000);
  CHECK(suspected > found);  // What came late was there.
}

TEST_CASE("CircleFinder: waits that are given up make no circle that was none", "[circles]") {
  int found = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    World world(seed, 3, 6, true);
    world.Run(4000);
    INFO("seed " << seed);
    REQUIRE(world.false_ones == 0);
    found += world.found;
  }
  CHECK(found > 100);
}

TEST_CASE("CircleFinder: one of a circle is told, the greatest; the text names all of it", "[circles]") {
  WaitGraph first, second;
  CircleFinder a(first), b(second);
  ActorLife x{{JobId("job"), "x", 0}, 1}, y{{JobId("job"), "y", 0}, 1}, z{{JobId("job"), "z", 0}, 1};
  REQUIRE(first.Begin(x, {{y, 1}}).ok());
  REQUIRE(second.Begin(y, {{z, 2}}).ok());
  REQUIRE(second.Begin(z, {{x, 3}}).ok());
  CHECK(a.Tick().empty());  // They have not waited for a tick.
  CHECK(b.Tick().empty());
  CircleFinder::Actions from_x = a.Tick();
  REQUIRE(from_x.size() == 1);
  CHECK(b.TakeProbe(from_x[0].probe, 7).empty());  // y is greater than x.
  CircleFinder::Actions from_z = b.Tick();
  REQUIRE(from_z.size() == 1);  // y's would have come to z, which is greater.
  CHECK(from_z[0].to == 3);
  CircleFinder::Actions on = a.TakeProbe(from_z[0].probe, 8);
  REQUIRE(on.size() == 1);
  CHECK(on[0].to == 1);
  CircleFinder::Actions back = b.TakeProbe(on[0].probe, 7);
  REQUIRE(back.size() == 1);
  CHECK(back[0].kind == Kind::kConfirm);
  CHECK(back[0].to == 7);
  back = a.TakeConfirm(back[0].probe);
  REQUIRE(back.size() == 1);
  CHECK(back[0].to == 8);
  CircleFinder::Actions told = b.TakeConfirm(back[0].probe);
  REQUIRE(told.size() == 1);
  CHECK(told[0].kind == Kind::kFound);
  CHECK(told[0].to == 3);
  CHECK(told[0].text.find("job/z/0#1 -> job/x/0#1 -> job/y/0#1 -> job/z/0#1") != std::string::npos);
}

TEST_CASE("CircleFinder: probes that cannot be are refused", "[circles]") {
  CHECK_FALSE(CircleProbe::Decode("\xff").ok());
  CHECK_FALSE(CircleProbe::Decode("").ok());
  CircleProbe probe;
  probe.steps.resize(2);
  probe.unconfirmed = 3;
  CHECK_FALSE(CircleProbe::Decode(probe.Encode()).ok());
  probe.unconfirmed = 2;
  CHECK(CircleProbe::Decode(probe.Encode()).ok());
  probe.steps.resize(CircleFinder::kStepsMax + 1);
  CHECK_FALSE(CircleProbe::Decode(probe.Encode()).ok());
}

}  // namespace
}  // namespace troupe
