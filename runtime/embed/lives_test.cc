// SPDX-License-Identifier: Apache-2.0
// Lives of actors in one program: trees, failures, restarts, stops, monitors and links, and what becomes of refs.
#include <catch2/catch.hpp>

#include "runtime/actor/call_error.h"
#include "runtime/embed/testing/node.h"
#include "runtime/env/testing/eventually.h"

namespace troupe {
namespace {

using troupe_test::Node;

TEST_CASE("Trees: children end with their parent, the parent last; detached ones live on", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Node> root = runtime.Spawn<Node>({.name = "root"}, "root").value();
  Ref<Node> child = root.Call<&Node::SpawnChild>("child", false).Get().value();
  Ref<Node> grandchild = child.Call<&Node::SpawnChild>("grandchild", false).Get().value();
  Ref<Node> detached = root.Call<&Node::SpawnChild>("detached", true).Get().value();
  CHECK(grandchild.Call<&Node::Name>().Get().value() == "grandchild");
  CHECK(runtime.Stop(root, "enough").ok());
  CHECK(Node::alive == 1);
  CHECK(CallErrorKindOf(grandchild.Call<&Node::Name>().Get().status()) == v1::CallError::CALL_DIED);
  CHECK(detached.Call<&Node::Name>().Get().ok());
}

TEST_CASE("Restart: a failed actor gets a next life, and refs to the old one are told of it", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  RestartOptions restart = {.max = 2, .backoff_initial = absl::Milliseconds(1), .on_exception = true};
  Ref<Node> first = runtime.Spawn<Node>({.name = "phoenix", .restart = restart}, "p").value();
  Ref<Node> child = first.Call<&Node::SpawnChild>("chick", false).Get().value();
  CHECK(std::string(first.Call<&Node::Throw>().Get().message()).find("broken inside") != std::string::npos);
  REQUIRE(Eventually([&] {
    return runtime.Latest(first).ok() && !(runtime.Latest(first).value() == first) &&
           runtime.Latest(first)->Call<&Node::Name>().Get().ok();
  }));
  absl::Status stale = first.Call<&Node::Name>().Get().status();
  CHECK(CallErrorKindOf(stale) == v1::CallError::CALL_STALE_EPOCH);
  CHECK(CallErrorOf(stale).current_incarnation() == runtime.Latest(first)->life().incarnation);
  CHECK_FALSE(child.Call<&Node::Name>().Get().ok());
  CHECK(runtime.List()[0].restarts == 1);
  for (int i = 0; i < 2; ++i) {
    Ref<Node> now = runtime.Latest(first).value();
    (void)now.Call<&Node::Throw>().Get();
    REQUIRE(Eventually([&] { return !runtime.Latest(first).ok() || !(runtime.Latest(first).value() == now); }));
  }
  // One more than it may.
  CHECK(Eventually([&] { return runtime.Latest(first).status().code() == absl::StatusCode::kNotFound; }));
  CHECK(Eventually([] { return Node::alive == 0; }));
}

TEST_CASE("Restart: an OnStart that fails each time ends in quarantine with its cause", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  RestartOptions restart = {.max = 3, .backoff_initial = absl::Milliseconds(1), .on_exception = true};
  Ref<Node> watcher = runtime.Spawn<Node>({.name = "watcher"}, "w").value();
  Ref<Node> first = runtime.Spawn<Node>({.name = "crash", .restart = restart}, "breaks again").value();
  REQUIRE(watcher.Call<&Node::Monitor>(first).Get().ok());
  (void)first.Call<&Node::Throw>().Get();
  CHECK(Eventually([&] { return runtime.Latest(first).status().code() == absl::StatusCode::kNotFound; }));
  CHECK(watcher.Call<&Node::Seen>().Get().value() == "crash: INTERNAL: the method threw: broken inside;");
  // Three more lives were begun, each of which failed as it started; the last one's cause stays.
  ActorAddress last = first.address();
  last.life.incarnation += 3;
  absl::Status died = Ref<Node>(last, runtime.router()).Call<&Node::Name>().Get().status();
  CHECK(CallErrorKindOf(died) == v1::CallError::CALL_DIED);
  CHECK(CallErrorOf(died).cause().kind() == v1::ExitCause::START_FAILED);
  CHECK(CallErrorOf(died).cause().text() == "OnStart: ABORTED: again");
  ++last.life.incarnation;
  CHECK(CallErrorKindOf(Ref<Node>(last, runtime.router()).Call<&Node::Name>().Get().status()) ==
        v1::CallError::CALL_UNAVAILABLE);
  CHECK(runtime.Spawn<Node>({.name = "crash"}, "n").ok());
}

TEST_CASE("Stop: one that comes while the next life is constructed ends that life", "[runtime]") {
  Runtime runtime = Runtime::Local({.threads = 2}).value();
  Ref<Node> first = runtime.Spawn<Node>({.name = "a", .restart = {.max = 1, .on_exception = true}}, "gated").value();
  Node::constructors.Close();
  (void)first.Call<&Node::Throw>().Get();
  REQUIRE(Node::constructors.AwaitWaiting());
  // Nobody has heard of the next life yet.
  CHECK(runtime.Stop(first, "enough", absl::Milliseconds(10)).code() == absl::StatusCode::kDeadlineExceeded);
  Node::constructors.Open();
  CHECK(Eventually([&] { return runtime.List().empty(); }));
  CHECK(Eventually([] { return Node::alive == 0; }));
}

TEST_CASE("Stop: a handler that does not end by the grace is told, and the stop goes on", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Node> a = runtime.Spawn<Node>({.name = "a"}, "a").value();
  Node::handlers.Close();
  Future<void> busy = a.Call<&Node::Wait>();
  REQUIRE(Node::handlers.AwaitWaiting());
  CHECK(runtime.Stop(a, "now", absl::Milliseconds(10)).code() == absl::StatusCode::kDeadlineExceeded);
  Node::handlers.Open();
  CHECK(busy.Get().ok());
  CHECK(runtime.Stop(a, "now").ok());
}

TEST_CASE("Spawn: an OnStart that does not end in time is told, and its name is free when it has ended", "[runtime]") {
  Runtime runtime = Runtime::Local({.threads = 2}).value();
  Node::starts.Close();
  absl::Status late = runtime.Spawn<Node>({.name = "a", .start_timeout = absl::Milliseconds(20)}, "slow").status();
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(std::string(late.message()).find("actor a (Node): OnStart has not ended within 20ms") == 0);
  CHECK(runtime.Spawn<Node>({.name = "a"}, "n").status().code() == absl::StatusCode::kAlreadyExists);
  Node::starts.Open();
  absl::StatusOr<Ref<Node>> again = late;
  CHECK(Eventually([&] {
    if (!again.ok()) again = runtime.Spawn<Node>({.name = "a"}, "n");
    return again.ok();
  }));
  CHECK(Eventually([] { return Node::alive == 1; }));
}

TEST_CASE("Monitors and links: the end of another is told, or shared", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Node> watcher = runtime.Spawn<Node>({.name = "watcher"}, "w").value();
  Ref<Node> a = runtime.Spawn<Node>({.name = "a", .restart = {.on_exception = true}}, "a").value();
  Ref<Node> b = runtime.Spawn<Node>({.name = "b", .restart = {.on_exception = true}}, "b").value();
  Ref<Node> c = runtime.Spawn<Node>({.name = "c"}, "c").value();
  REQUIRE(a.Call<&Node::Link>(b).Get().ok());
  REQUIRE(b.Call<&Node::Link>(c).Get().ok());
  for (const Ref<Node>& ref : {a, b, c}) REQUIRE(watcher.Call<&Node::Monitor>(ref).Get().ok());
  // The end of b reaches a, which has linked itself to it, and c, to which b has.
  (void)b.Call<&Node::Throw>().Get();
  std::string seen;
  CHECK(Eventually([&] {
    seen = watcher.Call<&Node::Seen>().Get().value();
    return seen.find("a: ") != std::string::npos && seen.find("c: ") != std::string::npos;
  }));
  INFO(seen);
  CHECK(seen.find("b: INTERNAL: the method threw: broken inside;") != std::string::npos);
  CHECK(seen.find("a: linked to local/b/0#3, which ended") != std::string::npos);
  CHECK(seen.find("c: linked to local/b/0#3, which ended") != std::string::npos);
  // A monitor of what has ended is told at once; a stop is told as one, and links let it pass.
  REQUIRE(watcher.Call<&Node::Monitor>(b).Get().ok());
  Ref<Node> d = runtime.Spawn<Node>({.name = "d"}, "d").value();
  REQUIRE(watcher.Call<&Node::Link>(d).Get().ok());
  REQUIRE(watcher.Call<&Node::Monitor>(d).Get().ok());
  REQUIRE(d.Call<&Node::StopSelf>().Get().ok());
  CHECK(Eventually([&] {
    seen = watcher.Call<&Node::Seen>().Get().value_or("");
    return seen.find("d: I am done;") != std::string::npos;
  }));
}

}  // namespace
}  // namespace troupe
