// SPDX-License-Identifier: Apache-2.0
// Put and get of objects, beside memcpy in the same run. Of a get in another process only that process' time counts:
// from the ref, as it comes in a message, to the bytes.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/object/object_broker.h"
#include "runtime/object/object_store.h"

namespace troupe {
namespace {

constexpr int64_t kLarge = int64_t{64} << 20;

Monotonic Soon() { return MonotonicNow() + absl::Seconds(10); }

// What a ref is, and what reading it took.
struct Letter {
  ObjectId id;
  ObjectPlace place;
};
struct Answer {
  int64_t nanoseconds = 0;
  bool good = false;
};

// A node: a broker and a store here, another store in a child, which gets what it is sent.
class Node {
 public:
  static Node& Get() {
    static auto* node = new Node;  // Not ended: the child goes with the socket.
    return *node;
  }
  ObjectStore& store() { return *store_; }

  Answer GetThere(const ObjectHandle& handle) {
    ObjectWire wire = store_->Describe(handle, 0, true);
    Letter letter{wire.id, wire.place};
    TROUPE_CHECK(to_child_.Send({reinterpret_cast<const char*>(&letter), sizeof(letter)}, {}, Soon()).ok(), "sent");
    std::string bytes = to_child_.Receive(sizeof(Answer), Soon()).value().bytes;
    Answer answer;
    std::memcpy(&answer, bytes.data(), sizeof(answer));
    return answer;
  }

 private:
  Node() {
    std::string folder = MakeTemporaryDirectory("object-benchmark").value();
    std::string socket = folder + "/objects.sock";
    auto pair = UnixSocket::Pair(UnixSocketKind::kSeqPacket).value();
    if (::fork() == 0) {  // Before there is a thread. Ends with its parent's socket.
      pair.first = UnixSocket();
      Serve(pair.second, socket);
      ::_exit(0);
    }
    to_child_ = std::move(pair.first);
    broker_ = ObjectBroker::Start({.socket_path = socket}).value();
    store_ = ObjectStore::Create({.name = "benchmark"});
    store_->UseBroker(socket, {});
  }

  static void Serve(UnixSocket& parent, const std::string& socket) {
    auto store = ObjectStore::Create({.name = "child"});
    store->UseBroker(socket, {});
    while (true) {
      absl::StatusOr<UnixPacket> packet = parent.Receive(sizeof(Letter), Monotonic::Infinite());
      if (!packet.ok()) return;
      Letter letter;
      std::memcpy(&letter, packet->bytes.data(), sizeof(letter));
      ObjectWire wire;
      wire.id = letter.id;
      wire.place = letter.place;
      wire.bytes = letter.place.bytes;
      Monotonic start = MonotonicNow();
      ObjectHandle handle = store->Adopt(wire);
      absl::StatusOr<ObjectPin> pin = store->Get(handle, start + absl::Seconds(10));
      Answer answer{(MonotonicNow() - start) / absl::Nanoseconds(1), pin.ok() && pin->bytes()[0] == std::byte{1}};
      handle = nullptr;
      pin = absl::CancelledError();
      (void)parent.Send({reinterpret_cast<const char*>(&answer), sizeof(answer)}, {}, Soon());
    }
  }

  UnixSocket to_child_;
  std::unique_ptr<ObjectBroker> broker_;
  std::shared_ptr<ObjectStore> store_;
};

const std::vector<std::byte>& Source() {
  static const auto* source = new std::vector<std::byte>(kLarge, std::byte{1});
  return *source;
}

void Memcpy64MiB(benchmark::State& state) {
  std::vector<std::byte> target(kLarge, std::byte{2});
  for (auto _ : state) {
    std::memcpy(target.data(), Source().data(), kLarge);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kLarge);
}

void Put64MiB(benchmark::State& state) {
  ObjectStore& store = Node::Get().store();
  ObjectHandle warm = store.Put(Source()).value();
  for (auto _ : state) {
    warm = nullptr;
    warm = store.Put(Source()).value();
  }
  state.SetBytesProcessed(state.iterations() * kLarge);
}

// A new object each time, in memory that the reader has mapped before.
void Get64MiBInAnotherProcess(benchmark::State& state) {
  Node& node = Node::Get();
  for (auto _ : state) {
    ObjectHandle handle = node.store().Put(Source()).value();
    Answer answer = node.GetThere(handle);
    if (!answer.good) state.SkipWithError("the other process has not got it");
    state.SetIterationTime(static_cast<double>(answer.nanoseconds) * 1e-9);
  }
}

void PutSmall(benchmark::State& state) {
  ObjectStore& store = Node::Get().store();
  std::vector<std::byte> bytes(static_cast<size_t>(state.range(0)), std::byte{1});
  for (auto _ : state) benchmark::DoNotOptimize(store.Put(bytes).value());
  state.SetItemsProcessed(state.iterations());
}

void GetSmall(benchmark::State& state) {
  ObjectStore& store = Node::Get().store();
  ObjectHandle handle = store.Put(std::vector<std::byte>(64, std::byte{1})).value();
  for (auto _ : state) benchmark::DoNotOptimize(store.Get(handle, Soon()).value());
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(Memcpy64MiB)->Unit(benchmark::kMillisecond);
BENCHMARK(Put64MiB)->Unit(benchmark::kMillisecond);
BENCHMARK(Get64MiBInAnotherProcess)->Unit(benchmark::kMicrosecond)->UseManualTime()->Iterations(200);
BENCHMARK(PutSmall)->Arg(64)->Arg(8 << 10)->Arg(64 << 10);
BENCHMARK(GetSmall);

}  // namespace
}  // namespace troupe
