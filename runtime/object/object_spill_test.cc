// SPDX-License-Identifier: Apache-2.0
// Objects that go to the disk and come back.
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <thread>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/object/object_broker.h"
#include "runtime/object/object_store.h"

namespace troupe {
namespace {

constexpr int64_t kBytes = 20 << 20;  // Each has a file of its own.

Monotonic Soon() { return MonotonicNow() + absl::Seconds(20); }

absl::StatusOr<ObjectHandle> Make(ObjectStore& store, char mark) {
  absl::StatusOr<ObjectBuffer> buffer = store.Allocate(kBytes);
  if (!buffer.ok()) return buffer.status();
  std::fill(buffer->bytes().begin(), buffer->bytes().end(), static_cast<std::byte>(mark));
  return std::move(*buffer).Seal();
}

bool Holds(const absl::StatusOr<ObjectPin>& pin, char mark) {
  return pin.ok() && pin->bytes().front() == static_cast<std::byte>(mark) &&
         pin->bytes().back() == static_cast<std::byte>(mark) && pin->bytes().size() == kBytes;
}

size_t Files(const std::string& folder) {
  size_t files = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
    files += entry.is_regular_file();
  return files;
}

struct Spilling {
  std::string folder = MakeTemporaryDirectory("object-spill").value();
  ObjectBrokerOptions options{.socket_path = folder + "/objects.sock", .spill_folder = folder + "/spill"};
  std::unique_ptr<ObjectBroker> broker = ObjectBroker::Start(options).value();
  std::vector<std::shared_ptr<ObjectStore>> stores;

  ObjectStore& Add(const std::string& name) {
    stores.push_back(ObjectStore::Create({.name = name, .bytes_max = 100 << 20}));
    stores.back()->UseBroker(options.socket_path, {});
    return *stores.back();
  }
  ~Spilling() {
    for (const auto& store : stores) store->Shutdown();
    broker = nullptr;
    CHECK(Files(folder) == 0);
    (void)RemoveTree(folder);
  }
};

TEST_CASE("Spill: the longest unused objects go to the disk, come back when they are got, and their files go with them",
          "[object]") {
  Spilling f;
  ObjectStore& store = f.Add("a");
  std::vector<ObjectHandle> handles;
  for (char mark : {'a', 'b', 'c', 'd'}) handles.push_back(Make(store, mark).value());
  REQUIRE(Holds(store.Get(handles[0], Soon()), 'a'));
  for (char mark : {'e', 'f'}) handles.push_back(Make(store, mark).value());
  CHECK(store.figures().spilled == 2);  // b and c.
  CHECK(Files(f.folder) == 2);
  CHECK(store.figures().file_bytes <= 100 << 20);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < handles.size(); ++i) {
      CHECK(Holds(store.Get(handles[i], Soon()), static_cast<char>('a' + i)));
    }
  }
  CHECK(store.figures().file_bytes <= 100 << 20);
  handles.clear();
  CHECK(Files(f.folder) == 0);
}

TEST_CASE("Spill: what is read stays; with nothing to spill it is RESOURCE_EXHAUSTED at once", "[object]") {
  Spilling f;
  ObjectStore& store = f.Add("a");
  std::vector<ObjectPin> pins;
  for (char mark : {'a', 'b', 'c', 'd'}) {
    pins.push_back(store.Get(Make(store, mark).value(), Soon()).value());
  }
  Monotonic start = MonotonicNow();
  CHECK(Make(store, 'e').status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(MonotonicNow() - start < absl::Seconds(1));
  CHECK(store.figures().file_bytes <= 100 << 20);
  ObjectHandle first = pins[0].handle();
  pins[0] = ObjectPin();
  ObjectHandle e = Make(store, 'e').value();
  CHECK(store.figures().spilled == 1);
  pins[1] = ObjectPin();
  CHECK(Holds(store.Get(first, Soon()), 'a'));
  CHECK(Holds(store.Get(e, Soon()), 'e'));
}

TEST_CASE("Spill: an object that others hold goes when they do not read it, and comes back for them", "[object]") {
  Spilling f;
  ObjectStore &a = f.Add("a"), &b = f.Add("b");
  ObjectHandle mine = Make(a, 'm').value();
  ObjectWire wire = a.Describe(mine, 0, true);
  std::string owner(wire.owner), folder(wire.node_id);
  wire.owner = owner;
  wire.node_id = wire.endpoint = {};
  ObjectHandle theirs = b.Adopt(wire);
  ObjectPin reading = b.Get(theirs, Soon()).value();
  ObjectWire lent_wire;
  ObjectHandle borrowed;
  {
    ObjectHandle lent = Make(a, 'l').value();
    lent_wire = a.Describe(lent, 0, true);
    lent_wire.owner = owner;
    lent_wire.node_id = lent_wire.endpoint = {};
    borrowed = b.Adopt(lent_wire);
    REQUIRE(Holds(b.Get(borrowed, Soon()), 'l'));
  }
  std::vector<ObjectHandle> more;
  for (char mark : {'1', '2', '3', '4'}) more.push_back(Make(a, mark).value());
  CHECK(Holds(reading, 'm'));
  CHECK(Holds(b.Get(borrowed, Soon()), 'l'));  // Brought back.
  CHECK(Holds(b.Get(theirs, Soon()), 'm'));
  reading = ObjectPin();
  for (char mark : {'5', '6', '7', '8'}) more.push_back(Make(a, mark).value());
  CHECK(a.figures().spilled >= 6);
  CHECK(Holds(b.Get(theirs, Soon()), 'm'));
  CHECK(Holds(a.Get(mine, Soon()), 'm'));
  CHECK(Holds(b.Get(borrowed, Soon()), 'l'));
  // A ref to one on the disk, sent on.
  for (char mark : {'a', 'b', 'c', 'd', 'e'}) more.push_back(Make(a, mark).value());
  ObjectHandle again = b.Adopt(a.Describe(more[0], 0, true));
  CHECK(Holds(b.Get(again, Soon()), '1'));
  more.clear();
  mine = theirs = borrowed = again = nullptr;
  CHECK(Eventually([&] { return f.broker->held_objects() == 0 && a.figures().spilled == 0; }));
  CHECK(Files(f.folder) == 0);
}

TEST_CASE("Spill: readers and writers at the same time see what was written", "[object]") {
  Spilling f;
  ObjectStore &a = f.Add("a"), &b = f.Add("b");
  std::vector<ObjectHandle> mine, theirs;
  std::vector<std::unique_ptr<std::string>> names;
  for (char i = 0; i < 8; ++i) {
    mine.push_back(Make(a, static_cast<char>('A' + i)).value());
    ObjectWire wire = a.Describe(mine.back(), 0, true);
    wire.node_id = wire.endpoint = {};
    theirs.push_back(b.Adopt(wire));
  }
  std::atomic<int> wrong{0}, failed{0};
  auto read = [&](ObjectStore& store, const std::vector<ObjectHandle>& handles, unsigned seed) {
    for (int i = 0; i < 40; ++i) {
      size_t at = (seed = seed * 1103515245 + 12345) / 65536 % handles.size();
      absl::StatusOr<ObjectPin> pin = store.Get(handles[at], Soon());
      // With everything pinned at once there may be no room.
      if (!pin.ok()) ++failed;
      if (pin.ok() && !Holds(pin, static_cast<char>('A' + at))) ++wrong;
    }
  };
  std::thread reader([&] { read(b, theirs, 1); });
  read(a, mine, 2);
  reader.join();
  CHECK(wrong == 0);
  CHECK(failed < 10);
}

TEST_CASE("Spill: a damaged file is DATA_LOSS that names it; a full disk is an error and nothing is lost", "[object]") {
  Spilling f;
  ObjectStore& store = f.Add("a");
  std::vector<ObjectHandle> handles;
  for (char mark : {'a', 'b', 'c', 'd', 'e'}) handles.push_back(Make(store, mark).value());
  std::string spilled;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(f.options.spill_folder)) {
    if (entry.is_regular_file()) spilled = entry.path();
  }
  REQUIRE_FALSE(spilled.empty());
  std::string bytes = ReadFile(spilled, 1 << 30).value();
  bytes[1000] ^= 1;
  REQUIRE(WriteFileAtomic(spilled, bytes).ok());
  absl::Status damaged = store.Get(handles[0], Soon()).status();
  CHECK(damaged.code() == absl::StatusCode::kDataLoss);
  CHECK(std::string(damaged.message()).find(spilled) != std::string::npos);
  handles[0] = nullptr;
  // Every next file leads to a disk that is full.
  std::string folder = std::filesystem::path(spilled).parent_path();
  for (int i = 1; i < 30; ++i) {
    std::error_code error;
    std::filesystem::create_symlink("/dev/full", folder + "/" + std::to_string(i) + ".spill", error);
  }
  handles.push_back(Make(store, 'f').value());  // Into the block that the damaged one was to have.
  absl::Status full = Make(store, 'g').status();
  CHECK(full.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(full.message()).find(".spill") != std::string::npos);
  // The one that is on the disk has no place to come back to; the others are there.
  size_t away = 0;
  for (size_t i = 1; i < handles.size(); ++i) {
    absl::StatusOr<ObjectPin> pin = store.Get(handles[i], Soon());
    INFO(i << ": " << pin.status());
    if (pin.status().code() == absl::StatusCode::kResourceExhausted) {
      ++away;
    } else {
      CHECK(Holds(pin, static_cast<char>('a' + i)));
    }
  }
  CHECK(away == 1);
  for (int i = 1; i < 30; ++i) {
    std::string link = folder + "/" + std::to_string(i) + ".spill";
    if (std::filesystem::is_symlink(link)) std::filesystem::remove(link);
  }
  for (size_t i = 1; i < handles.size(); ++i) CHECK(Holds(store.Get(handles[i], Soon()), static_cast<char>('a' + i)));
}

}  // namespace
}  // namespace troupe
