// SPDX-License-Identifier: Apache-2.0
// Objects between nodes: several brokers with their exchanges over real connections, as several machines have them.
#include "runtime/object/object_exchange.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "runtime/object/testing/object_node.h"

namespace troupe {
namespace {

TEST_CASE(
    "Exchange: a ref from another node is got; all gets of a node share one copy, which goes with the last of them",
    "[object]") {
  ObjectNode left("left"), right("right");
  ObjectStore &a = left.Add("a"), &b = right.Add("b"), &c = right.Add("c");
  for (size_t size : {size_t{9000}, size_t{1} << 20, size_t{10'000'001}}) {
    std::vector<std::byte> bytes = Pattern(size, size);
    ObjectHandle mine = a.Put(bytes).value();
    int64_t fetched = right.exchange->figures().fetched_bytes;
    ObjectHandle at_b = Send(a, b, mine), at_c = Send(a, c, mine), through_b = Send(b, c, at_b);
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (auto [store, handle] :
         {std::pair(&b, at_b), std::pair(&b, at_b), std::pair(&c, at_c), std::pair(&c, through_b)}) {
      threads.emplace_back(
          [&, store = store, handle = handle] { good += Equal(store->Get(handle, Soon()), bytes) ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(good == 4);
    CHECK(right.exchange->figures().fetched_bytes - fetched == static_cast<int64_t>(size));
    CHECK(left.exchange->figures().held == 1);
    mine = nullptr;
    CHECK(a.figures().lent == 1);  // The other node's.
    at_b = at_c = through_b = nullptr;
    CHECK(Eventually([&] { return right.broker->held_objects() == 0 && left.broker->held_objects() == 0; }));
    CHECK(Eventually([&] { return a.figures().lent == 0 && left.exchange->figures().held == 0; }));
    CHECK(a.figures().idle_bytes == a.figures().file_bytes);
  }
  CHECK(left.exchange->figures().sent_bytes == right.exchange->figures().fetched_bytes);
}

TEST_CASE("Exchange: small and empty objects that share a message with others, and their way back", "[object]") {
  ObjectNode left("left"), right("right");
  ObjectStore &a = left.Add("a"), &b = right.Add("b");
  for (size_t size : {0, 1, 5000}) {
    std::vector<std::byte> bytes = Pattern(size, 3);
    ObjectHandle mine = a.Put(bytes).value();
    ObjectHandle theirs = b.Adopt(a.Describe(mine, ObjectStore::kInlineMessageBytes + 1, true));
    CHECK(Equal(b.Get(theirs, Soon()), bytes));
    mine = nullptr;
    ObjectHandle back = a.Adopt(b.Describe(theirs, 0, true));
    theirs = nullptr;
    CHECK(Equal(a.Get(back, Soon()), bytes));
  }
  CHECK(left.exchange->figures().fetched_bytes == 0);
  CHECK(Eventually([&] { return left.broker->held_objects() == 0 && right.broker->held_objects() == 0; }));
}

TEST_CASE("Exchange: a ref on another node keeps the object from the moment it is there, whoever lets go", "[object]") {
  ObjectNode left("left"), right("right");
  ObjectStore &a = left.Add("a"), &b = right.Add("b");
  std::vector<std::byte> bytes = Pattern(3'000'000, 1);
  std::vector<ObjectHandle> theirs;
  for (int i = 0; i < 50; ++i) {
    ObjectHandle mine = a.Put(bytes).value();
    theirs.push_back(Send(a, b, mine));
  }
  PauseFor(absl::Milliseconds(50));
  CHECK(a.figures().lent == 50);
  for (const ObjectHandle& handle : theirs) CHECK(Equal(b.Get(handle, Soon()), bytes));
  // Its process ends, its node does not.
  ObjectHandle last = Send(a, b, a.Put(bytes).value());
  left.stores[0]->Shutdown();
  left.stores.clear();
  CHECK(Equal(b.Get(last, Soon()), bytes));
  theirs.clear();
  last = nullptr;
  CHECK(Eventually([&] { return left.broker->bytes() == 0 && left.broker->held_objects() == 0; }));
}

TEST_CASE("Exchange: an object that is lost or gone is an error with its cause, at once", "[object]") {
  ObjectNode left("left"), right("right");
  ObjectStore &a = left.Add("a"), &b = right.Add("b");
  ObjectHandle mine = a.Put(Pattern(100'000, 1)).value();
  ObjectWire wire = a.Describe(mine, 0, true);
  std::string owner(wire.owner), node(wire.node_id), endpoint(wire.endpoint);
  wire.owner = owner, wire.node_id = node, wire.endpoint = endpoint;
  REQUIRE(Eventually([&] { return left.broker->held_objects() == 1; }));
  mine = nullptr;
  REQUIRE(Eventually([&] { return left.broker->held_objects() == 0; }));
  absl::Status gone = b.Get(b.Adopt(wire), Soon()).status();
  CHECK(gone.code() == absl::StatusCode::kNotFound);
  INFO(gone);
  CHECK(std::string(gone.message()).find("everybody let it go") != std::string::npos);
  left.stores[0]->Shutdown();
  left.stores.clear();
  left.broker->OwnerEnded({{JobId("job"), "a", 0}, 1}, "killed by signal 9");
  absl::Status lost;
  CHECK(Eventually([&] {
    lost = b.Get(b.Adopt(wire), Soon()).status();
    return std::string(lost.message()).find("its owner a has ended (killed by signal 9)") != std::string::npos;
  }));
  INFO(lost);
  CHECK(lost.code() == absl::StatusCode::kNotFound);
  // A node that serves no others.
  wire.endpoint = "";
  wire.id.sequence = 77;
  CHECK(b.Get(b.Adopt(wire), Soon()).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Exchange: a broadcast costs the home at most two copies, and every node gets the right bytes", "[object]") {
  constexpr int kNodes = 5;
  constexpr size_t kBytes = 24 << 20;
  ObjectNode home("home");
  ObjectStore& a = home.Add("a");
  std::vector<std::unique_ptr<ObjectNode>> nodes;
  for (int i = 0; i < kNodes; ++i) {
    nodes.push_back(std::make_unique<ObjectNode>("node" + std::to_string(i)));
    nodes.back()->Add("b");
  }
  std::vector<std::byte> bytes = Pattern(kBytes, 9);
  ObjectHandle mine = a.Put(bytes).value();
  std::vector<ObjectHandle> handles;
  for (const auto& node : nodes) handles.push_back(Send(a, *node->stores[0], mine));
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kNodes; ++i) {
    threads.emplace_back([&, i] { good += Equal(nodes[i]->stores[0]->Get(handles[i], Soon()), bytes) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == kNodes);
  CHECK(home.exchange->figures().sent_bytes <= static_cast<int64_t>(2 * kBytes));
  int64_t sent = home.exchange->figures().sent_bytes;
  for (const auto& node : nodes) {
    CHECK(node->exchange->figures().fetched_bytes == static_cast<int64_t>(kBytes));
    CHECK(node->exchange->figures().sent_bytes <= static_cast<int64_t>(2 * kBytes));
    sent += node->exchange->figures().sent_bytes;
  }
  CHECK(sent == static_cast<int64_t>(kNodes * kBytes));
  handles.clear();
  mine = nullptr;
  CHECK(Eventually([&] { return home.broker->held_objects() == 0; }));
  for (const auto& node : nodes) CHECK(Eventually([&] { return node->broker->held_objects() == 0; }));
}

TEST_CASE("Exchange: what was fetched is bounded by the node's budget, and spilled like other objects", "[object]") {
  ObjectNode left("left"), right("right", 50 << 20);
  ObjectStore &a = left.Add("a"), &b = right.Add("b");
  std::vector<std::vector<std::byte>> bytes;
  std::vector<ObjectHandle> handles;
  for (uint64_t i = 0; i < 5; ++i) {
    bytes.push_back(Pattern(20 << 20, i));
    handles.push_back(Send(a, b, a.Put(bytes.back()).value()));
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < handles.size(); ++i) CHECK(Equal(b.Get(handles[i], Soon()), bytes[i]));
  }
  CHECK(right.broker->bytes() <= 50 << 20);
  CHECK(right.exchange->figures().fetched_bytes == 5 * (20 << 20));  // The second time they came from the disk.
  ObjectPin first = b.Get(handles[0], Soon()).value(), second = b.Get(handles[1], Soon()).value();
  absl::Status full = b.Get(handles[2], Soon()).status();
  INFO(full);
  CHECK(full.code() == absl::StatusCode::kResourceExhausted);
  std::vector<std::byte> large = Pattern(40 << 20, 1);
  absl::Status none = b.Get(Send(a, b, a.Put(large).value()), Soon()).status();
  CHECK(none.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(none.message()).find("no room for object") != std::string::npos);
}

TEST_CASE("Exchange: after restarts of either agent refs are good", "[object]") {
  ObjectNode left("left"), right("right");
  ObjectStore &a = left.Add("a"), &b = right.Add("b");
  std::vector<std::byte> bytes = Pattern(3'000'000, 4);
  ObjectHandle mine = a.Put(bytes).value();
  ObjectHandle unread = Send(a, b, mine);
  mine = nullptr;
  left.Restart();
  CHECK(Eventually([&] { return left.exchange->figures().held == 1; }));
  PauseFor(absl::Seconds(4));  // More than it waits for those who had said so to its predecessor.
  CHECK(a.figures().lent == 1);
  right.Restart();
  CHECK(Equal(b.Get(unread, Soon()), bytes));
  right.Restart();
  CHECK(Equal(b.Get(unread, Soon()), bytes));
  CHECK(right.exchange->figures().fetched_bytes == 0);  // Its readers had it mapped.
  unread = nullptr;
  CHECK(Eventually([&] { return right.broker->held_objects() == 0; }));
}

}  // namespace
}  // namespace troupe
