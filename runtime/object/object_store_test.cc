// SPDX-License-Identifier: Apache-2.0
// Objects between several stores, as several processes have them; and processes that are killed.
#include "runtime/object/object_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/object/object_broker.h"

namespace troupe {
namespace {

Monotonic Soon() { return MonotonicNow() + absl::Seconds(10); }

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string TextOf(const ObjectPin& pin) {
  return {reinterpret_cast<const char*>(pin.bytes().data()), pin.bytes().size()};
}
size_t Descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// A ref as a message carries it.
struct Letter {
  std::string content, owner, node_id, endpoint;
  ObjectWire wire;
  explicit Letter(const ObjectWire& w)
      : content(w.content), owner(w.owner), node_id(w.node_id), endpoint(w.endpoint), wire(w) {
    wire.content = content;
    wire.owner = owner;
    wire.node_id = node_id;
    wire.endpoint = endpoint;
  }
  Letter(const Letter&) = delete;
};

struct Stores {
  std::string folder = MakeTemporaryDirectory("object-store").value();
  ObjectBrokerOptions options{.socket_path = folder + "/objects.sock", .bytes_max = int64_t{256} << 20};
  std::unique_ptr<ObjectBroker> broker = ObjectBroker::Start(options).value();
  std::vector<std::shared_ptr<ObjectStore>> stores;

  ObjectStore& Add(const std::string& name, ObjectStoreOptions store = {}) {
    store.name = name;
    stores.push_back(ObjectStore::Create(store));
    stores.back()->UseBroker(options.socket_path, {{JobId("job"), name, 0}, 1});
    return *stores.back();
  }
  ~Stores() {
    for (const auto& store : stores) store->Shutdown();
    broker = nullptr;
    (void)RemoveTree(folder);
  }
};

const std::string kLarge(100'000, 'L');

TEST_CASE("ObjectStore: without a broker objects are of this process, small and large", "[object]") {
  auto store = ObjectStore::Create({.name = "alone"});
  for (const std::string& text : {std::string(), std::string("small"), kLarge}) {
    ObjectHandle handle = store->Put(BytesOf(text)).value();
    ObjectPin pin = store->Get(handle, Soon()).value();
    CHECK(TextOf(pin) == text);
    CHECK(reinterpret_cast<uintptr_t>(pin.bytes().data()) % 64 == 0);
    Letter letter(store->Describe(handle, 0, false));
    handle = nullptr;
    pin = ObjectPin();
    ObjectHandle again = store->Adopt(letter.wire);
    CHECK(TextOf(store->Get(again, Soon()).value()) == text);
  }
  CHECK(store->figures().in_transit == 0);
  ObjectHandle handle = store->Put(BytesOf(kLarge)).value();
  Letter letter(store->Describe(handle, 0, true));
  handle = nullptr;
  absl::Status gone = store->Get(store->Adopt(letter.wire), Soon()).status();
  CHECK(gone.code() == absl::StatusCode::kNotFound);
  CHECK(store->figures().idle_bytes == store->figures().file_bytes);
  CHECK(store->Put({reinterpret_cast<const std::byte*>(1), size_t{1} << 62}).status().code() ==
        absl::StatusCode::kResourceExhausted);
}

TEST_CASE("ObjectStore: another process reads the same memory, and the block lives as long as anybody has it",
          "[object]") {
  Stores f;
  ObjectStore &a = f.Add("a"), &b = f.Add("b");
  ObjectHandle mine = a.Put(BytesOf(kLarge)).value();
  Letter letter(a.Describe(mine, 0, true));
  CHECK_FALSE(letter.wire.is_inline);
  ObjectHandle theirs = b.Adopt(letter.wire);
  ObjectPin pin = b.Get(theirs, Soon()).value();
  CHECK(TextOf(pin) == kLarge);
  mine = nullptr;
  theirs = nullptr;
  CHECK(a.figures().lent == 1);
  CHECK(TextOf(pin) == kLarge);
  // Back at its owner, which had let it go.
  Letter back(b.Describe(pin.handle(), 0, true));
  ObjectHandle again = a.Adopt(back.wire);
  CHECK(TextOf(a.Get(again, Soon()).value()) == kLarge);
  pin = ObjectPin();
  PauseFor(absl::Milliseconds(20));
  CHECK(a.figures().lent == 1);
  again = nullptr;
  CHECK(Eventually([&] { return a.figures().lent == 0 && f.broker->held_objects() == 0; }));
  CHECK(a.figures().idle_bytes == a.figures().file_bytes);
  absl::Status gone = b.Get(b.Adopt(letter.wire), Soon()).status();
  CHECK(gone.code() == absl::StatusCode::kNotFound);
  CHECK(std::string(gone.message()).find("everybody let it go") != std::string::npos);
}

TEST_CASE("ObjectStore: refs on their way keep the object until they have arrived", "[object]") {
  Stores f;
  ObjectStore &a = f.Add("a"), &b = f.Add("b"), &c = f.Add("c");
  Letter to_b(a.Describe(a.Put(BytesOf(kLarge)).value(), 0, false));
  CHECK(a.figures().in_transit == 1);
  ObjectHandle at_b = b.Adopt(to_b.wire);
  CHECK(Eventually([&] { return a.figures().in_transit == 0 && a.figures().lent == 1; }));
  CHECK(TextOf(b.Get(at_b, Soon()).value()) == kLarge);
  // From a process that does not own it.
  Letter to_c(b.Describe(at_b, 0, false));
  at_b = nullptr;
  ObjectHandle at_c = c.Adopt(to_c.wire);
  CHECK(Eventually([&] { return b.figures().in_transit == 0; }));
  CHECK(TextOf(c.Get(at_c, Soon()).value()) == kLarge);
  at_c = nullptr;
  CHECK(Eventually([&] { return a.figures().lent == 0; }));
}

TEST_CASE("ObjectStore: small objects travel in their message, unless it is full of them", "[object]") {
  Stores f;
  ObjectStore &a = f.Add("a"), &b = f.Add("b");
  ObjectHandle mine = a.Put(BytesOf("tiny")).value();
  Letter small(a.Describe(mine, 0, false));
  CHECK(small.wire.is_inline);
  CHECK(TextOf(b.Get(b.Adopt(small.wire), Soon()).value()) == "tiny");
  Letter moved(a.Describe(mine, ObjectStore::kInlineMessageBytes + 1, false));
  CHECK_FALSE(moved.wire.is_inline);
  ObjectHandle theirs = b.Adopt(moved.wire);
  CHECK(TextOf(b.Get(theirs, Soon()).value()) == "tiny");
  CHECK(TextOf(a.Get(mine, Soon()).value()) == "tiny");
  theirs = mine = nullptr;
  CHECK(Eventually([&] { return f.broker->held_objects() == 0; }));
}

TEST_CASE("ObjectStore: what its owner has used again is never read for the old object", "[object]") {
  Stores f;
  ObjectStore &a = f.Add("a"), &b = f.Add("b");
  ObjectHandle first = a.Put(BytesOf(std::string(100'000, '1'))).value();
  Letter letter(a.Describe(first, 0, true));
  REQUIRE(b.Get(b.Adopt(letter.wire), Soon()).ok());  // The file is mapped there.
  first = nullptr;
  REQUIRE(Eventually([&] { return a.figures().idle_bytes == a.figures().file_bytes; }));
  ObjectHandle second = a.Put(BytesOf(std::string(100'000, '2'))).value();
  CHECK(b.Get(b.Adopt(letter.wire), Soon()).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("ObjectStore: over the budget is RESOURCE_EXHAUSTED at once, and nothing is lost", "[object]") {
  Stores f;
  ObjectStore& a = f.Add("a");
  ObjectStore& b = f.Add("b", {.bytes_max = int64_t{40} << 20});
  ObjectHandle kept = a.Put(BytesOf(std::string(200 << 20, 'k'))).value();
  absl::Status node = a.Allocate(100 << 20).status();
  CHECK(node.code() == absl::StatusCode::kResourceExhausted);
  INFO(node);
  CHECK(std::string(node.message()).find("the objects of this node hold") != std::string::npos);
  CHECK(b.Allocate(50 << 20).status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(f.broker->bytes() == a.figures().file_bytes);
  kept = nullptr;
  CHECK(a.Allocate(100 << 20).ok());  // In place of the idle file.
  CHECK(b.Allocate(20 << 20).ok());
}

TEST_CASE("ObjectStore: after a restart of the agent everything is as it was", "[object]") {
  Stores f;
  ObjectStore &a = f.Add("a"), &b = f.Add("b"), &c = f.Add("c");
  ObjectHandle mine = a.Put(BytesOf(kLarge)).value();
  Letter letter(a.Describe(mine, 0, true));
  ObjectHandle read = b.Adopt(letter.wire);
  REQUIRE(b.Get(read, Soon()).ok());
  ObjectHandle unread = c.Adopt(letter.wire);
  ObjectHandle lent = a.Put(BytesOf(kLarge)).value();
  Letter other(a.Describe(lent, 0, true));
  ObjectHandle borrowed = b.Adopt(other.wire);
  REQUIRE(b.Get(borrowed, Soon()).ok());
  lent = nullptr;
  f.broker = nullptr;
  f.options.resync_grace = absl::Milliseconds(1500);
  f.broker = ObjectBroker::Start(f.options).value();
  CHECK(TextOf(c.Get(unread, Soon()).value()) == kLarge);
  CHECK(Eventually([&] { return f.broker->held_objects() == 2; }));
  mine = read = nullptr;
  PauseFor(absl::Seconds(2));
  CHECK(TextOf(c.Get(unread, Soon()).value()) == kLarge);
  CHECK(f.broker->held_objects() == 2);
  unread = borrowed = nullptr;
  CHECK(Eventually([&] { return f.broker->held_objects() == 0 && a.figures().lent == 0; }));
}

TEST_CASE("ObjectStore: thousands of objects leave no memory, descriptors or holds behind", "[object]") {
  Stores f;
  ObjectStore &a = f.Add("a", {.idle_bytes_max = 0}), &b = f.Add("b");
  auto round = [&](int objects) {
    std::vector<ObjectHandle> theirs;
    for (int i = 0; i < objects; ++i) {
      std::string text(static_cast<size_t>(10'000 + i % 7 * 9000), static_cast<char>('a' + i % 26));
      Letter letter(a.Describe(a.Put(BytesOf(text)).value(), 0, false));
      theirs.push_back(b.Adopt(letter.wire));
      if (i % 3 == 0) CHECK(TextOf(b.Get(theirs.back(), Soon()).value()) == text);
      if (i % 2 == 0) theirs.erase(theirs.begin());
    }
  };
  round(100);
  REQUIRE(Eventually([&] { return f.broker->bytes() == 0 && b.figures().views == 0; }));
  size_t descriptors = Descriptors();
  round(3000);
  CHECK(Eventually([&] { return f.broker->bytes() == 0 && b.figures().views == 0; }));
  CHECK(f.broker->held_objects() == 0);
  CHECK(a.figures().file_bytes == 0);
  CHECK(a.figures().lent == 0);
  CHECK(Descriptors() == descriptors);
}

// ---- Processes that are killed ----

// Forked before there are threads; talks by a socket pair: one letter in the codec of this test.
class Child {
 public:
  explicit Child(const std::function<void(UnixSocket&)>& body) {
    auto pair = UnixSocket::Pair(UnixSocketKind::kSeqPacket).value();
    pid_ = ::fork();
    if (pid_ == 0) {
      pair.first = UnixSocket();
      body(pair.second);
      ::_exit(0);
    }
    socket_ = std::move(pair.first);
  }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  UnixSocket& socket() { return socket_; }

 private:
  pid_t pid_ = 0;
  UnixSocket socket_;
};

std::string Pack(const ObjectWire& wire) {
  v1::ExportObject packed;
  *packed.mutable_name() = wire.id.ToProto();
  *packed.mutable_place() = wire.place.ToProto();
  return packed.SerializeAsString() + " " + std::to_string(wire.bytes);
}
ObjectWire Unpack(const std::string& bytes) {
  size_t space = bytes.rfind(' ');
  v1::ExportObject packed;
  (void)packed.ParseFromString(bytes.substr(0, space));
  ObjectWire wire;
  wire.id = ObjectId::FromProto(packed.name());
  wire.place = ObjectPlace::FromProto(packed.place());
  wire.bytes = std::stoll(bytes.substr(space + 1));
  wire.owner = "child";
  return wire;
}

TEST_CASE("ObjectStore: a killed holder's holds end with it; a killed owner's objects live for those who hold them",
          "[object]") {
  std::string folder = MakeTemporaryDirectory("object-kill").value();
  std::string socket_path = folder + "/objects.sock";
  // Waits for the broker, then makes two objects and sends their refs.
  Child owner([&](UnixSocket& parent) {
    (void)parent.Receive(100, Monotonic::Infinite());
    auto store = ObjectStore::Create({.name = "child"});
    store->UseBroker(socket_path, {{JobId("job"), "child", 0}, 1});
    std::vector<ObjectHandle> handles;
    for (int i = 0; i < 2; ++i) {
      // Of different sizes, so in different files.
      handles.push_back(store->Put(BytesOf(i == 0 ? kLarge : kLarge + kLarge)).value());
      (void)parent.Send(Pack(store->Describe(handles.back(), 0, true)), {}, Soon());
    }
    (void)parent.Receive(100, Monotonic::Infinite());
  });
  // Holds what it is sent.
  Child holder([&](UnixSocket& parent) {
    std::string letter = parent.Receive(1000, Monotonic::Infinite()).value().bytes;
    auto store = ObjectStore::Create({.name = "holder"});
    store->UseBroker(socket_path, {});
    ObjectHandle handle = store->Adopt(Unpack(letter));
    bool good = TextOf(store->Get(handle, Soon()).value()) == kLarge;
    (void)parent.Send(good ? "good" : "bad", {}, Soon());
    (void)parent.Receive(100, Monotonic::Infinite());
  });
  auto broker = ObjectBroker::Start({.socket_path = socket_path}).value();
  auto store = ObjectStore::Create({.name = "test"});
  store->UseBroker(socket_path, {});
  REQUIRE(owner.socket().Send("go", {}, Soon()).ok());
  std::string first = owner.socket().Receive(1000, Soon()).value().bytes;
  std::string second = owner.socket().Receive(1000, Soon()).value().bytes;
  REQUIRE(holder.socket().Send(first, {}, Soon()).ok());
  CHECK(holder.socket().Receive(100, Soon()).value().bytes == "good");
  CHECK(broker->held_objects() == 2);

  owner.Kill();
  CHECK(Eventually([&] { return broker->held_objects() == 1; }));
  broker->OwnerEnded({{JobId("job"), "child", 0}, 1}, "killed by signal 9");
  {
    ObjectHandle kept = store->Adopt(Unpack(first));
    CHECK(TextOf(store->Get(kept, Soon()).value()) == kLarge);
    absl::Status lost = store->Get(store->Adopt(Unpack(second)), Soon()).status();
    CHECK(lost.code() == absl::StatusCode::kNotFound);
    CHECK(std::string(lost.message()).find("its owner child has ended (killed by signal 9)") != std::string::npos);
  }
  CHECK(broker->bytes() > 0);
  holder.Kill();
  CHECK(Eventually([&] { return broker->held_objects() == 0 && broker->bytes() == 0; }));
  store->Shutdown();
  broker = nullptr;
  (void)RemoveTree(folder);
}

}  // namespace
}  // namespace troupe
