// SPDX-License-Identifier: Apache-2.0
// A home's ChunkSwarm and the PullStates of many nodes, together in simulated time: requests and answers that are lost,
// late and damaged, nodes and homes that are killed. SWARM-1 to -4 and PULL-1 to -3 are checked at every step.
#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "runtime/object/pull_state.h"

namespace troupe {
namespace {

struct Faults {
  int lost_percent = 0;     // Of plans and chunks each.
  int damaged_percent = 0;  // Of chunks.
  int killed_nodes = 0;
  bool kill_home = false;
};

struct Broken {
  std::string what;
};
void Require(bool holds, const std::string& what) {
  if (!holds) throw Broken{what};
}

class World {
 public:
  World(uint64_t seed, int nodes, int64_t chunks, Faults faults)
      : random_(seed), chunks_(chunks), faults_(faults), swarm_("home", chunks) {
    for (int i = 0; i < nodes; ++i) {
      std::string name = "n" + std::to_string(i);
      nodes_.emplace(name, Node(chunks, now_));
      After(Between(0, 50), [this, name] { Step(name, PullTick()); });
    }
    for (int i = 0; i < faults.killed_nodes; ++i) {
      After(Between(5, 400), [this, name = "n" + std::to_string(i)] { nodes_.at(name).alive = false; });
    }
    if (faults.kill_home) After(Between(20, 400), [this] { home_alive_ = false; });
  }

  void Run() {
    Monotonic end = now_ + absl::Seconds(90);
    while (!events_.empty() && events_.begin()->first.first < end && Running()) {
      auto event = events_.extract(events_.begin());
      now_ = event.key().first;
      event.mapped()();
    }
    Require(!Running(), "PULL-3: a pull does not end");
  }

  struct Node {
    Node(int64_t chunks, Monotonic now)
        : state(chunks, "object x of node home", now), has(static_cast<size_t>(chunks)) {}
    PullState state;
    std::vector<bool> has;
    std::set<int64_t> fetching;
    std::optional<absl::Status> ended;
    bool alive = true;
    bool knew_others = false;
  };
  const std::map<std::string, Node>& nodes() const { return nodes_; }
  bool home_alive() const { return home_alive_; }
  // By source: chunks sent, whole and damaged.
  std::map<std::string, int64_t> sent;

 private:
  void After(int64_t ms, std::function<void()> event) {
    events_.emplace(std::pair(now_ + absl::Milliseconds(ms), ++made_), std::move(event));
  }
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int percent) { return Between(0, 99) < percent; }
  bool Running() const {
    for (const auto& [name, node] : nodes_) {
      if (node.alive && !node.ended.has_value()) return true;
    }
    return false;
  }

  void Step(const std::string& name, const PullEvent& event) {
    Node& node = nodes_.at(name);
    if (!node.alive) return;
    bool was_ended = node.ended.has_value();
    for (const PullAction& action : node.state.Step(event, now_)) {
      std::visit([&](const auto& a) { Do(name, node, a); }, action);
    }
    if (std::holds_alternative<PullTick>(event) && !was_ended) {
      After(5, [this, name] { Step(name, PullTick()); });
    }
  }

  void Do(const std::string& name, Node&, const AskPlan& ask) { Ask(name, ask.report, true); }

  void Ask(const std::string& name, ChunkSwarm::Report report, bool answers) {
    report.node = name;
    Require(report.wanted <= PullState::kWindow, "PULL-2: too much is asked for");
    bool lost = Chance(faults_.lost_percent), unheard = lost && Chance(50);
    After(Between(0, 5), [=, this] {
      absl::StatusOr<std::vector<ChunkSwarm::Send>> sends = absl::UnavailableError("the home is gone");
      if (home_alive_ && !unheard) sends = swarm_.Step(report, now_);
      PlanCame plan;
      if (sends.ok()) {
        for (const ChunkSwarm::Send& send : *sends) {
          CheckSend(name, send);
          plan.fetches.push_back({send.chunk, {send.source, send.source}, 0});
        }
        for (const std::string& other : swarm_.Nodes()) {
          if (other != name) plan.others.push_back({other, other});
        }
      }
      if (!answers) return;
      After(Between(0, 5), [=, this] {
        if (lost) return Step(name, PlanFailed{absl::UnavailableError("lost")});
        if (!sends.ok()) return Step(name, PlanFailed{sends.status()});
        nodes_.at(name).knew_others |= !plan.others.empty();
        Step(name, plan);
      });
    });
  }

  void CheckSend(const std::string& name, const ChunkSwarm::Send& send) {
    Require(send.source != name, "SWARM-1: a node is its own source");
    if (send.source == "home") return;
    const Node& source = nodes_.at(send.source);
    Require(source.has[static_cast<size_t>(send.chunk)], "SWARM-1: a source does not have the chunk");
  }

  void Do(const std::string& name, Node& node, const FetchChunk& fetch) {
    auto at = static_cast<size_t>(fetch.chunk);
    Require(!node.has[at] && node.fetching.insert(fetch.chunk).second, "PULL-1: a chunk is fetched twice");
    Require(node.fetching.size() <= static_cast<size_t>(PullState::kWindow), "PULL-2: too many chunks at a time");
    const std::string& source = fetch.source.node;
    if (++uploads_[source] > ChunkSwarm::kUploadsMax) {
      // Without losses a source is asked as the home has said.
      Require(faults_.lost_percent + faults_.killed_nodes > 0 || faults_.kill_home, "SWARM-3: too many uploads");
    }
    After(Between(1, 20), [=, this, &node] {
      --uploads_[source];
      node.fetching.erase(fetch.chunk);
      bool there = source == "home" ? home_alive_ : nodes_.at(source).alive;
      if (!there || Chance(faults_.lost_percent)) {
        return Step(name, ChunkFailed{fetch.chunk, absl::UnavailableError("no connection")});
      }
      if (source != "home" && !nodes_.at(source).has[at]) {
        return Step(name, ChunkFailed{fetch.chunk, absl::NotFoundError("not here")});
      }
      ++sent[source];
      ++sends_[{source, fetch.chunk}];
      bool quiet = faults_.lost_percent + faults_.damaged_percent + faults_.killed_nodes == 0 && !faults_.kill_home;
      Require(!quiet || sends_[{source, fetch.chunk}] <= ChunkSwarm::kSendsMax, "SWARM-2: sent too often");
      if (Chance(faults_.damaged_percent)) {
        return Step(name, ChunkFailed{fetch.chunk, absl::DataLossError("damaged")});
      }
      node.has[at] = true;
      Step(name, ChunkCame{fetch.chunk});
    });
  }

  void Do(const std::string& name, Node& node, const PullEnded& end) {
    Require(!node.ended.has_value(), "PULL-3: it ends twice");
    node.ended = end.status;
    bool whole = std::find(node.has.begin(), node.has.end(), false) == node.has.end();
    Require(end.status.ok() == whole, "PULL-3: whole and no error, or not whole and an error");
    if (whole) OfferOn(name);
  }
  void OfferOn(const std::string& name) {
    Node& node = nodes_.at(name);
    if (!node.alive) return;
    Ask(name, node.state.OfferReport(), false);
    After(1000, [this, name] { OfferOn(name); });
  }

  std::mt19937_64 random_;
  const int64_t chunks_;
  const Faults faults_;
  Monotonic now_ = Monotonic::FromNanoseconds(1'000'000'000);
  uint64_t made_ = 0;
  std::map<std::pair<Monotonic, uint64_t>, std::function<void()>> events_;
  ChunkSwarm swarm_;
  bool home_alive_ = true;
  std::map<std::string, Node> nodes_;
  std::map<std::string, int> uploads_;
  std::map<std::pair<std::string, int64_t>, int> sends_;
};

// The world after its end.
std::unique_ptr<World> Simulate(uint64_t seed, int nodes, int64_t chunks, Faults faults) {
  auto world = std::make_unique<World>(seed, nodes, chunks, faults);
  try {
    world->Run();
  } catch (const Broken& broken) {
    FAIL("seed " << seed << ": " << broken.what);
  }
  return world;
}

TEST_CASE("Pulls: one node gets everything from the home, once", "[object]") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto world = Simulate(seed, 1, 100, {});
    REQUIRE(world->sent["home"] == 100);
    REQUIRE(world->nodes().at("n0").ended == absl::OkStatus());
  }
}

TEST_CASE("Pulls: a broadcast to 24 nodes costs the home between one copy and two, and nobody more than two",
          "[object]") {
  int64_t home = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto world = Simulate(seed, 24, 64, {});
    int64_t all = 0;
    for (const auto& [source, chunks] : world->sent) {
      INFO("seed " << seed << ", " << source);
      REQUIRE(chunks <= 2 * 64);
      all += chunks;
    }
    REQUIRE(all == 24 * 64);
    home += world->sent["home"];
    for (const auto& [name, node] : world->nodes()) REQUIRE(node.ended == absl::OkStatus());
  }
  CHECK(home <= 20 * 64 * 8 / 5);
}

TEST_CASE("Pulls: whatever is lost and damaged, and whoever is killed, the others get it whole", "[object]") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    Faults faults{.lost_percent = static_cast<int>(random() % 30),
                  .damaged_percent = static_cast<int>(random() % 20),
                  .killed_nodes = static_cast<int>(random() % 4)};
    auto world = Simulate(seed, 6, static_cast<int64_t>(1 + random() % 60), faults);
    for (const auto& [name, node] : world->nodes()) {
      INFO("seed " << seed << ", " << name);
      if (node.alive) REQUIRE(node.ended == absl::OkStatus());
    }
  }
}

TEST_CASE("Pulls: when the home is killed the others go on with what they have; else the error says how far it came",
          "[object]") {
  int saved = 0, lost = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    auto world = Simulate(seed, 5, 40, {.lost_percent = static_cast<int>(seed % 10), .kill_home = true});
    if (world->home_alive()) continue;
    std::vector<bool> somewhere(40);
    bool all_knew = true;
    for (const auto& [name, node] : world->nodes()) {
      for (size_t i = 0; i < node.has.size(); ++i) somewhere[i] = somewhere[i] || node.has[i];
      all_knew = all_knew && node.knew_others;
    }
    bool complete = std::find(somewhere.begin(), somewhere.end(), false) == somewhere.end();
    for (const auto& [name, node] : world->nodes()) {
      INFO("seed " << seed << ", " << name << ": " << node.ended->ToString());
      if (complete && all_knew) REQUIRE(node.ended == absl::OkStatus());
      if (!complete) REQUIRE(node.ended->code() == absl::StatusCode::kUnavailable);
      if (!complete) REQUIRE(std::string(node.ended->message()).find("of 40 chunks came from") != std::string::npos);
    }
    (complete ? saved : lost) += 1;
  }
  CHECK(saved > 10);
  CHECK(lost > 10);
}

}  // namespace
}  // namespace troupe
