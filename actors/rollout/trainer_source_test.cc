// SPDX-License-Identifier: Apache-2.0
#include "actors/rollout/trainer_source.h"

#include <catch2/catch.hpp>

#include "runtime/env/clock.h"
#include "runtime/worker/actor_directory.h"

namespace troupe {
namespace {

struct Fixture {
  ActorDirectory directory{JobId("job"), "n1", nullptr, {}};
  ActorContext context{ActorSetting{}, nullptr, &directory};

  void Tell(const std::string& role, uint64_t incarnation, v1::ActorState state) {
    v1::ActorUpdate update;
    v1::Actor& actor = *update.add_actors();
    *actor.mutable_address()->mutable_actor() = ActorLife{{JobId("job"), role, 0}, incarnation}.ToProto();
    if (state == v1::ACTOR_READY) actor.mutable_address()->set_endpoint("127.0.0.1:1");
    actor.set_state(state);
    directory.Apply(update);
  }
};

}  // namespace

TEST_CASE("TrainerSource: it is cancelled when its trainer's life has ended, and by nothing else", "[rollout]") {
  Fixture f;
  CHECK(TrainerSource::Open(f.context).status().code() == absl::StatusCode::kUnavailable);
  uint64_t life = 1;
  auto cancelled_by = [&](const std::string& role, uint64_t incarnation, v1::ActorState state) {
    f.Tell("actor", ++life, v1::ACTOR_READY);
    std::unique_ptr<TrainerSource> source = TrainerSource::Open(f.context).value();
    CHECK_FALSE(source->WaitCancelled(MonotonicNow()));
    f.Tell(role, incarnation, state);
    return source->WaitCancelled(MonotonicNow());
  };
  CHECK(cancelled_by("actor", 2, v1::ACTOR_PENDING));  // waits to be started again
  CHECK(cancelled_by("actor", 3, v1::ACTOR_DEAD));
  CHECK(cancelled_by("actor", 5, v1::ACTOR_STARTING));  // its successor
  life = 10;
  CHECK_FALSE(cancelled_by("actor", 11, v1::ACTOR_STARTING));  // the head was restarted
  CHECK_FALSE(cancelled_by("actor", 11, v1::ACTOR_DEAD));      // late news of the life before
  CHECK_FALSE(cancelled_by("reward", 13, v1::ACTOR_DEAD));
}

}  // namespace troupe
