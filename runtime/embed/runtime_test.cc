// SPDX-License-Identifier: Apache-2.0
// Actors in one program: names, groups, bounds, and the end of it all.
#include "runtime/embed/runtime.h"

#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "runtime/actor/call_error.h"
#include "runtime/embed/testing/node.h"
#include "runtime/env/testing/eventually.h"

namespace troupe {
namespace {

using troupe_test::Node;

TEST_CASE("Runtime: actors are spawned, called, found by name and stopped", "[runtime]") {
  {
    Runtime runtime = Runtime::Local().value();
    Ref<Node> a = runtime.Spawn<Node>({.name = "a", .labels = {{"zone", "1"}}}, "one").value();
    CHECK(a.Call<&Node::Name>().Get().value() == "one");
    CHECK(runtime.Find<Node>("a").value() == a);
    CHECK(runtime.Find<Node>("b").status().code() == absl::StatusCode::kNotFound);
    CHECK(runtime.Spawn<Node>({.name = "a"}, "two").status().code() == absl::StatusCode::kAlreadyExists);
    CHECK(runtime.Spawn<Node>({.name = "a b"}, "two").status().code() == absl::StatusCode::kInvalidArgument);
    Ref<Node> unnamed = runtime.Spawn<Node>({.own_thread = true}, "two").value();
    CHECK(unnamed.life().ToString() == "local/Node-1/0#2");
    REQUIRE(runtime.List().size() == 2);
    CHECK(runtime.List()[1].labels.at("zone") == "1");

    CHECK(runtime.Stop(a, "enough").ok());
    CHECK(runtime.Stop(a, "enough").ok());
    absl::Status gone = a.Call<&Node::Name>().Get().status();
    CHECK(CallErrorKindOf(gone) == v1::CallError::CALL_DIED);
    CHECK(std::string(gone.message()).find("enough") != std::string::npos);
    Ref<Node> again = runtime.Spawn<Node>({.name = "a"}, "three").value();
    CHECK(again.life().incarnation > a.life().incarnation);
    absl::Status stale = a.Call<&Node::Name>().Get().status();
    CHECK(CallErrorKindOf(stale) == v1::CallError::CALL_STALE_EPOCH);
    CHECK(runtime.Latest(a).value() == again);
  }
  CHECK(Node::alive == 0);
}

TEST_CASE("Runtime: a constructor or OnStart that fails says why, and its name is free", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  absl::Status broken = runtime.Spawn<Node>({.name = "x"}, "broken").status();
  CHECK(std::string(broken.message()) == "actor x (Node): the constructor threw: no such part");
  CHECK(runtime.Spawn<Node>({.name = "x"}, "late").status() ==
        absl::FailedPreconditionError("actor x (Node): not today"));
  CHECK(runtime.Spawn<Node>({.name = "x"}, "good").ok());
}

TEST_CASE("Group: each member has its result or error; scatter, gather and reduce", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Group<Node> group = runtime.SpawnGroup<Node>(3, {.name = "node"}, "n").value();
  CHECK(group.Broadcast<&Node::Name>().All().value() == std::vector<std::string>{"n", "n", "n"});
  CHECK(group.Scatter<&Node::Half>(std::vector<int64_t>{2, 4, 6}).Reduce(std::minus<>()).value() == 1 - 2 - 3);
  std::vector<absl::StatusOr<int64_t>> halves = group.Scatter<&Node::Half>(std::vector<int64_t>{2, 5, 6}).Get();
  CHECK(halves[0].value() == 1);
  CHECK(halves[1].status() == absl::InvalidArgumentError("5 is odd"));
  CHECK(halves[2].value() == 3);
  absl::Status error = group.Scatter<&Node::Half>(std::vector<int64_t>{2, 5, 7}).All().status();
  CHECK(std::string(error.message()) == "2 of 3 members failed, local/node.1/0#2 first: 5 is odd");
  CHECK(group.Scatter<&Node::Half>(std::vector<int64_t>{2}).All().status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(group.Broadcast<&Node::StopSelf>().All().ok());
  CHECK(runtime.SpawnGroup<Node>(2, {.name = "late"}, "late").status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Runtime: its end also stops what an actor is spawning then", "[runtime]") {
  auto runtime = std::make_unique<Runtime>(Runtime::Local({.threads = 2}).value());
  Node::witnessed = 0;
  Ref<Node> witness = runtime->Spawn<Node>({}, "witness").value();
  Ref<Node> parent = runtime->Spawn<Node>({.name = "parent"}, "p").value();
  Node::constructors.Close();
  Future<Ref<Node>> spawned = parent.Call<&Node::SpawnChild>("gated", true);
  REQUIRE(Node::constructors.AwaitWaiting());
  std::thread opening([] {
    static_cast<void>(Eventually([] { return Node::witnessed == 1; }));  // The end has begun by then.
    Node::constructors.Open();
  });
  runtime = nullptr;
  opening.join();
  // What was being made was asked to stop, unless it was ready just before that.
  absl::Status end = spawned.Get().status();
  CHECK((end.ok() || end.code() == absl::StatusCode::kUnavailable));
  CHECK(Node::alive == 0);
}

TEST_CASE("Runtime: thousands of actors come and go", "[runtime]") {
  Runtime runtime = Runtime::Local({.threads = 2}).value();
  for (int round = 0; round < 3; ++round) {
    std::vector<Ref<Node>> refs;
    for (int i = 0; i < 1000; ++i) refs.push_back(runtime.Spawn<Node>({}, "n").value());
    for (const Ref<Node>& ref : refs) CHECK(runtime.Stop(ref, "enough").ok());
  }
  CHECK(Node::alive == 0);
  CHECK(runtime.List().empty());
}

TEST_CASE("Runtime: a mailbox bound is kept", "[runtime]") {
  Runtime runtime = Runtime::Local({.threads = 2}).value();
  Ref<Node> small = runtime.Spawn<Node>({.mailbox = {.messages_max = 2}}, "n").value();
  Node::handlers.Close();
  Future<void> busy = small.Call<&Node::Wait>();
  REQUIRE(Node::handlers.AwaitWaiting());
  std::vector<Future<void>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(small.Call<&Node::Wait>());
  for (size_t i = 2; i < calls.size(); ++i) {
    CHECK(CallErrorKindOf(calls[i].Get()) == v1::CallError::CALL_OVERLOADED);
  }
  Node::handlers.Open();
  CHECK(busy.Get().ok());
  CHECK(calls[0].Get().ok());
  CHECK(calls[1].Get().ok());
}

}  // namespace
}  // namespace troupe
