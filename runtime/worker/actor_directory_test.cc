// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker/actor_directory.h"

#include <catch2/catch.hpp>
#include <thread>

#include "runtime/actor/actor.h"
#include "runtime/env/clock.h"

namespace troupe {
namespace {

class Dummy : public Actor {};
TROUPE_ACTOR(Dummy, TROUPE_METHODS(), TROUPE_INIT());

v1::ActorUpdate Update(const std::string& role, int32_t replica, uint64_t incarnation, v1::ActorState state,
                       const std::string& exit_text = "") {
  v1::ActorUpdate update;
  v1::Actor& actor = *update.add_actors();
  *actor.mutable_address()->mutable_actor() = ActorLife{{JobId("job"), role, replica}, incarnation}.ToProto();
  actor.mutable_address()->set_node_id("n1");
  if (state == v1::ACTOR_READY) actor.mutable_address()->set_endpoint("unix:/x" + std::to_string(incarnation));
  actor.set_state(state);
  actor.mutable_last_exit()->set_text(exit_text);
  return update;
}

struct Fixture {
  std::vector<std::string> deaths;
  ActorDirectory directory{JobId("job"), "n1", nullptr, [this](const ActorLife& life, const v1::ExitCause& cause) {
                             deaths.push_back(life.ToString() + " " + cause.text());
                           }};
};

TEST_CASE("ActorDirectory: a replica resolves to its newest ready life, and says why when it does not", "[directory]") {
  Fixture f;
  CHECK(f.directory.Resolve<Dummy>("rollout", 0).status().code() == absl::StatusCode::kUnavailable);
  f.directory.Apply(Update("rollout", 0, 1, v1::ACTOR_STARTING));
  CHECK(std::string(f.directory.Resolve<Dummy>("rollout", 0).status().message()).find("is starting") !=
        std::string::npos);
  f.directory.Apply(Update("rollout", 0, 1, v1::ACTOR_READY));
  CHECK(f.directory.Resolve<Dummy>("rollout", 0).value().address().endpoint == "unix:/x1");
  f.directory.Apply(Update("rollout", 0, 2, v1::ACTOR_READY));
  f.directory.Apply(Update("rollout", 0, 1, v1::ACTOR_READY));  // Late news of an older life.
  CHECK(f.directory.Resolve<Dummy>("rollout", 0).value().life().incarnation == 2);
  f.directory.Apply(Update("rollout", 1, 1, v1::ACTOR_PENDING));
  f.directory.Apply(Update("reward", 0, 1, v1::ACTOR_READY));
  CHECK(f.directory.FindRole("rollout").size() == 2);
  CHECK(f.directory.All().size() == 3);
}

TEST_CASE("ActorDirectory: each ended life is told once, by death, by its successor or by waiting again",
          "[directory]") {
  Fixture f;
  f.directory.Apply(Update("a", 0, 1, v1::ACTOR_READY));
  CHECK(f.deaths.empty());
  f.directory.Apply(Update("a", 0, 1, v1::ACTOR_DEAD, "signal 9"));
  CHECK(f.deaths == std::vector<std::string>{"job/a/0#1 signal 9"});
  f.directory.Apply(Update("a", 0, 2, v1::ACTOR_STARTING));
  f.directory.Apply(Update("a", 0, 2, v1::ACTOR_READY));
  f.directory.Apply(Update("a", 0, 3, v1::ACTOR_READY, "gone"));
  CHECK(f.deaths.back() == "job/a/0#2 gone");
  f.directory.Apply(Update("a", 0, 3, v1::ACTOR_PENDING, "again"));
  CHECK(f.deaths.back() == "job/a/0#3 again");
}

TEST_CASE("ActorDirectory: waiting ends when a life of the wanted age is ready, or at the deadline", "[directory]") {
  Fixture f;
  f.directory.Apply(Update("a", 0, 1, v1::ACTOR_READY));
  CHECK(f.directory.WaitReady<Dummy>("a", 0, Monotonic()).ok());
  absl::Status late = f.directory.WaitReady<Dummy>("a", 0, MonotonicNow() + absl::Milliseconds(10), 2).status();
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  std::thread news([&] {
    PauseFor(absl::Milliseconds(10));
    f.directory.Apply(Update("a", 0, 2, v1::ACTOR_READY));
  });
  CHECK(f.directory.WaitReady<Dummy>("a", 0, MonotonicNow() + absl::Seconds(10), 2).value().life().incarnation == 2);
  news.join();
}

TEST_CASE("ActorDirectory: listeners hear what is known and then what changes; a stop request stays", "[directory]") {
  Fixture f;
  f.directory.Apply(Update("a", 0, 1, v1::ACTOR_READY));
  std::vector<std::string> heard;
  int id = f.directory.AddListener([&](const DirectoryEntry& entry) { heard.push_back(entry.life().ToString()); });
  f.directory.Apply(Update("b", 0, 1, v1::ACTOR_READY));
  f.directory.RemoveListener(id);
  f.directory.Apply(Update("c", 0, 1, v1::ACTOR_READY));
  CHECK(heard == std::vector<std::string>{"job/a/0#1", "job/b/0#1"});
  v1::ActorUpdate stop;
  stop.set_stop_requested(true);
  CHECK_FALSE(f.directory.stop_requested());
  f.directory.Apply(stop);
  f.directory.Apply(v1::ActorUpdate());
  CHECK(f.directory.stop_requested());
}

}  // namespace
}  // namespace troupe
