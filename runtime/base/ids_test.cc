// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/ids.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

TEST_CASE("Ids: an actor's life survives text and protobuf", "[ids]") {
  ActorLife life{{JobId("addition-1"), "rollout", 2}, 7};
  CHECK(life.ToString() == "addition-1/rollout/2#7");
  CHECK(ActorLife::Parse(life.ToString()).value() == life);
  CHECK(ActorLife::FromProto(life.ToProto()) == life);
}

TEST_CASE("Ids: text of another form is refused", "[ids]") {
  for (const char* text : {"", "a", "a/b", "a/b/", "a/b/x", "a/b/-1", "/b/1", "a//1", "a/b/1x"}) {
    INFO(text);
    CHECK_FALSE(ActorPath::Parse(text).ok());
    CHECK_FALSE(ActorLife::Parse(std::string(text) + "#1").ok());
  }
  CHECK_FALSE(ActorLife::Parse("a/b/1").ok());
  CHECK_FALSE(ActorLife::Parse("a/b/1#").ok());
}

}  // namespace
}  // namespace troupe
