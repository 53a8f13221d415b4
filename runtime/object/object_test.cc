// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/object/memory_file.h"
#include "runtime/object/object_broker.h"
#include "runtime/object/object_client.h"
#include "runtime/object/object_table.h"

namespace troupe {
namespace {

std::shared_ptr<const MemoryFile> FileOf(const std::string& text) {
  MemoryFileWriter writer = MemoryFileWriter::Create("test", static_cast<int64_t>(text.size())).value();
  std::memcpy(writer.bytes().data(), text.data(), text.size());
  return std::move(writer).Seal().value();
}

std::string TextOf(const MemoryFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

ActorLife Life(const std::string& role, uint64_t incarnation) { return {{JobId("job"), role, 0}, incarnation}; }

struct Fixture {
  std::string folder = MakeTemporaryDirectory("object-test").value();
  ObjectBrokerOptions options{.socket_path = folder + "/objects.sock", .bytes_max = 1000, .connections_max = 4};
  std::unique_ptr<ObjectBroker> broker = ObjectBroker::Start(options).value();
  ~Fixture() {
    broker = nullptr;
    CHECK_FALSE(FileExists(options.socket_path));
    (void)RemoveTree(folder);
  }
};

TEST_CASE("MemoryFile: what is written is read, and cannot be changed any more by anybody", "[object]") {
  std::shared_ptr<const MemoryFile> file = FileOf("immutable");
  CHECK(TextOf(*file) == "immutable");
  CHECK(::write(file->fd(), "x", 1) < 0);
  CHECK(::ftruncate(file->fd(), 1) < 0);
  CHECK(::mmap(nullptr, 9, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd(), 0) == MAP_FAILED);
}

TEST_CASE("MemoryFile: descriptors that are not sealed memory files are refused", "[object]") {
  UniqueFd plain(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(MemoryFile::Map(std::move(plain)).status().code() == absl::StatusCode::kInvalidArgument);
  UniqueFd unsealed(::memfd_create("x", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  REQUIRE(::ftruncate(unsealed.get(), 10) == 0);
  CHECK(MemoryFile::Map(std::move(unsealed)).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("MemoryFile: more than the machine has is RESOURCE_EXHAUSTED, at once", "[object]") {
  // Larger than any machine's memory; no page is taken for it.
  absl::Status status = MemoryFileWriter::Create("huge", int64_t{1} << 62).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(MemoryFileWriter::Create("none", 0).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("ObjectBroker: one process puts, another gets the same memory", "[object]") {
  Fixture f;
  ObjectClient a(f.options.socket_path, Life("a", 1)), b(f.options.socket_path, Life("b", 1));
  REQUIRE(a.Put("weights", FileOf("hello")).ok());
  std::shared_ptr<const MemoryFile> got = b.Get("weights").value();
  CHECK(TextOf(*got) == "hello");
  CHECK(b.Get("other").status().code() == absl::StatusCode::kNotFound);
  REQUIRE(b.Drop("weights").ok());
  CHECK(b.Get("weights").status().code() == absl::StatusCode::kNotFound);
  CHECK(TextOf(*got) == "hello");  // Who holds it keeps it.
  CHECK(f.broker->bytes() == 0);
}

TEST_CASE("ObjectBroker: its budget, foreign ids and bad ids are refused", "[object]") {
  Fixture f;
  ObjectClient a(f.options.socket_path, Life("a", 1)), b(f.options.socket_path, Life("b", 1));
  REQUIRE(a.Put("x", FileOf(std::string(600, 'x'))).ok());
  CHECK(a.Put("y", FileOf(std::string(600, 'y'))).code() == absl::StatusCode::kResourceExhausted);
  CHECK(a.Put("x", FileOf(std::string(900, 'z'))).ok());  // In its own place.
  CHECK(f.broker->bytes() == 900);
  CHECK(b.Put("x", FileOf("b")).code() == absl::StatusCode::kAlreadyExists);
  CHECK(b.Put("", FileOf("b")).code() == absl::StatusCode::kInvalidArgument);
  CHECK(b.Put(std::string(300, 'i'), FileOf("b")).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("ObjectBroker: objects go with their owner's life unless they are kept", "[object]") {
  Fixture f;
  ObjectClient old_life(f.options.socket_path, Life("a", 1)), new_life(f.options.socket_path, Life("a", 2));
  REQUIRE(old_life.Put("x", FileOf("x")).ok());
  REQUIRE(old_life.Put("kept", FileOf("k"), true).ok());
  REQUIRE(new_life.Put("y", FileOf("y")).ok());
  f.broker->OwnerEnded(Life("a", 1));
  CHECK(new_life.Get("x").status().code() == absl::StatusCode::kNotFound);
  CHECK(new_life.Get("kept").ok());
  CHECK(new_life.Get("y").ok());
  CHECK(old_life.Put("late", FileOf("l")).code() == absl::StatusCode::kAborted);
  CHECK(f.broker->objects() == 2);
}

TEST_CASE("ObjectBroker: after a restart of the agent the publisher's next request brings its objects back",
          "[object]") {
  Fixture f;
  ObjectClient a(f.options.socket_path, Life("a", 1)), b(f.options.socket_path, Life("b", 1));
  REQUIRE(a.Put("x", FileOf("x")).ok());
  REQUIRE(b.Get("x").ok());
  f.broker = nullptr;
  CHECK(b.Get("x").status().code() == absl::StatusCode::kUnavailable);
  f.broker = ObjectBroker::Start(f.options).value();
  CHECK(b.Get("x").status().code() == absl::StatusCode::kNotFound);
  REQUIRE(a.Put("y", FileOf("y")).ok());
  CHECK(TextOf(*b.Get("x").value()) == "x");
}

TEST_CASE("ObjectClient: a broker that does not answer is left alone for a while, then asked again", "[object]") {
  Fixture f;
  f.broker = nullptr;
  auto stopped = std::make_unique<UnixListener>(  // Takes connections and serves none, as a stopped agent does.
      UnixListener::Listen(f.options.socket_path, UnixSocketKind::kSeqPacket).value());
  const ObjectLineTimeouts timeouts{
      .reply = absl::Milliseconds(500), .silence = absl::Milliseconds(300), .again = absl::Milliseconds(100)};
  ObjectClient a(f.options.socket_path, Life("a", 1), timeouts);
  Monotonic begin = MonotonicNow();
  CHECK(a.Put("x", FileOf("x")).code() == absl::StatusCode::kUnavailable);
  Monotonic told = MonotonicNow();
  CHECK(told - begin >= timeouts.reply);
  for (int i = 0; i < 100; ++i) CHECK(a.Get("x").status().code() == absl::StatusCode::kUnavailable);
  CHECK(MonotonicNow() - told < timeouts.silence);
  PauseFor(timeouts.silence);
  Monotonic again = MonotonicNow();
  CHECK(a.Get("x").status().code() == absl::StatusCode::kUnavailable);
  CHECK(MonotonicNow() - again >= timeouts.again);
  CHECK(MonotonicNow() - again < timeouts.reply);

  stopped = nullptr;
  f.broker = ObjectBroker::Start(f.options).value();
  ObjectClient late(f.options.socket_path, Life("a", 1));
  REQUIRE(late.Put("x", FileOf("x")).ok());  // As what lay in the queue of the stopped one.
  PauseFor(timeouts.silence);
  REQUIRE(a.Put("y", FileOf("y")).ok());
  CHECK(late.Get("x").status().code() == absl::StatusCode::kNotFound);
  CHECK(late.Get("y").ok());
}

TEST_CASE("ObjectBroker: broken packets, missing descriptors and too many peers harm only themselves", "[object]") {
  Fixture f;
  Monotonic soon = MonotonicNow() + absl::Seconds(10);
  UnixSocket raw = UnixSocket::Connect(f.options.socket_path, UnixSocketKind::kSeqPacket).value();
  REQUIRE(raw.Send("\xff\xff\xff garbage", {}, soon).ok());
  CHECK(raw.Receive(4096, soon).status().code() == absl::StatusCode::kUnavailable);  // Closed.

  v1::ObjectRequest request;
  request.mutable_put()->set_object_id("x");
  raw = UnixSocket::Connect(f.options.socket_path, UnixSocketKind::kSeqPacket).value();
  REQUIRE(raw.Send(request.SerializeAsString(), {}, soon).ok());
  v1::ObjectReply reply;
  REQUIRE(reply.ParseFromString(raw.Receive(4096, soon).value().bytes));
  CHECK(reply.error().code() == static_cast<int>(absl::StatusCode::kInvalidArgument));

  std::vector<UnixSocket> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(UnixSocket::Connect(f.options.socket_path, UnixSocketKind::kSeqPacket).value());
  }
  CHECK(others.back().Receive(4096, soon).status().code() == absl::StatusCode::kUnavailable);  // The fifth.
  request.Clear();
  request.mutable_get()->set_object_id("x");
  REQUIRE(raw.Send(request.SerializeAsString(), {}, soon).ok());
  CHECK(raw.Receive(4096, soon).ok());
}

TEST_CASE("ObjectTable: a worker's quota counts what it puts anew once, and is free again when it has ended",
          "[object]") {
  ObjectBudget budget{.bytes_max = 1000, .worker_bytes_max = 100};
  ObjectTable table{budget};
  CHECK(table.Put("a", {UniqueFd(), 60, Life("actor", 1), false}).ok());
  CHECK(absl::IsResourceExhausted(table.Put("b", {UniqueFd(), 60, Life("actor", 1), false})));
  CHECK(table.Put("b", {UniqueFd(), 60, Life("rollout", 1), false}).ok());
  CHECK(table.Put("a", {UniqueFd(), 100, Life("actor", 1), false}).ok());
  CHECK(absl::IsResourceExhausted(table.Put("a", {UniqueFd(), 101, Life("actor", 1), false})));
  CHECK(budget.bytes == 160);
  table.OwnerEnded(Life("actor", 1));
  CHECK(budget.bytes == 60);
  CHECK(table.Put("a", {UniqueFd(), 100, Life("actor", 2), false}).ok());
}

}  // namespace
}  // namespace troupe
