// SPDX-License-Identifier: Apache-2.0
// The actors and processes of the contract suite (contract_test.cc, contract_faults_test.cc): a World is a caller, and
// actors that it calls over one transport. A new transport adds a World to OverEach. For those tests alone; checks are
// made on its thread.
#pragma once

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/actor/actor.h"
#include "runtime/actor/actor_host.h"
#include "runtime/actor/wait.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/rpc/server.h"
#include "runtime/transport/testing/cut_proxy.h"
#include "runtime/transport/transport.h"

namespace troupe {
namespace {

// How many processors this thread may use.
inline int64_t ProcessorsOfThread() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : -1;
}

// What is called: a method for each promise of a call.
class Subject : public Actor {
 public:
  std::string Echo(std::string text) { return text; }
  absl::Status Fail(const std::string& why) { return absl::DataLossError(why); }
  void Throw() { throw std::runtime_error("broken inside"); }
  // The numbers must come in order, from 0: FAILED_PRECONDITION names the one expected.
  absl::Status Next(int64_t n) {
    if (n != next_) return absl::FailedPreconditionError("expected " + std::to_string(next_));
    ++next_;
    return absl::OkStatus();
  }
  absl::Status NextRepeated(int64_t n) { return Next(n); }
  Future<int64_t> GateRepeated() { return Promise<int64_t>(gate_).TakeFuture(); }
  int64_t Count() const { return next_; }
  // Answers when Open is called.
  Future<int64_t> Gate() { return gate_.TakeFuture(); }
  void Open(int64_t value) { gate_.Set(value); }
  void Sleep(int64_t ms) { PauseFor(absl::Milliseconds(ms)); }
  // How much came, and how much came last before.
  int64_t Size(const std::string& text) { return size_ = static_cast<int64_t>(text.size()); }
  int64_t LastSize() const { return size_; }
  int64_t Processors() const { return ProcessorsOfThread(); }
  std::string Big(int64_t bytes) { return std::string(static_cast<size_t>(bytes), 'x'); }
  Stream<int64_t> Numbers(int64_t n, const std::string& error) {
    struct Guard {
      ~Guard() { ++ended; }
    } guard;
    for (int64_t i = 0; i < n; ++i) {
      produced = i + 1;
      co_yield i;
    }
    if (!error.empty()) co_return absl::DataLossError(error);
    co_return absl::OkStatus();
  }
  Stream<std::string> Blobs(int64_t n, int64_t bytes) {
    for (int64_t i = 0; i < n; ++i) {
      produced = i + 1;
      co_yield std::string(static_cast<size_t>(bytes), 'x');
    }
    co_return absl::OkStatus();
  }
  Task<std::string> AskThroughRef(Ref<Subject> other, std::string text) {
    co_return co_await other.Call<&Subject::Echo>(text);
  }
  absl::StatusOr<std::string> BlockOnRef(Ref<Subject> other, std::string text) {
    return other.Call<&Subject::Echo>(text).Get();
  }
  // Through two: `other` asks `back`.
  Task<std::string> AskAround(Ref<Subject> other, Ref<Subject> back) {
    co_return co_await other.Call<&Subject::AskThroughRef>(back, "round");
  }
  absl::StatusOr<std::string> BlockAround(Ref<Subject> other, Ref<Subject> back) {
    return other.Call<&Subject::BlockOnRef>(back, "round").Get();
  }
  // Takes no other message until the other one's gate opens.
  Task<int64_t> AwaitGate(Ref<Subject> other) { co_return co_await other.Call<&Subject::Gate>(); }
  Task<absl::Status> AwaitSleep(Ref<Subject> other, int64_t ms) { co_return co_await other.Call<&Subject::Sleep>(ms); }
  Ref<Subject> Pass(Ref<Subject> other) { return other; }

  // Of streams, over all subjects: items made by the newest one, producers that have ended.
  inline static std::atomic<int> produced{0};
  inline static std::atomic<int> ended{0};

 private:
  int64_t next_ = 0;
  int64_t size_ = 0;
  Promise<int64_t> gate_;
};
TROUPE_RETRY(Subject, NextRepeated, 3);
TROUPE_RETRY(Subject, GateRepeated, 3);
TROUPE_REENTRANT(Subject, Numbers);
TROUPE_REENTRANT(Subject, Blobs);
TROUPE_ACTOR(Subject,
             TROUPE_METHODS(Echo, Fail, Throw, Next, NextRepeated, GateRepeated, Count, Gate, Open, Sleep, Size,
                            LastSize, Processors, Big, Numbers, Blobs, AskThroughRef, BlockOnRef, AskAround,
                            BlockAround, AwaitGate, AwaitSleep, Pass),
             TROUPE_INIT());
// A class that no subject has the methods of.
class Other : public Actor {
 public:
  int64_t Foreign(const std::string& text) { return static_cast<int64_t>(text.size()); }
};
TROUPE_ACTOR(Other, TROUPE_METHODS(Foreign), TROUPE_INIT());

constexpr size_t kPayloadMax = 1 << 20;  // bytes
constexpr size_t kMailboxMax = 64;       // messages

// Another value for a scope.
template <typename T>
class Changed {
 public:
  Changed(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
  ~Changed() { variable_ = before_; }

 private:
  T& variable_;
  const T before_;
};

// By what a side is reached from others.
enum class Serves { kNothing, kGrpc, kRings };

// A process' side: a host, its transport, perhaps a server, which others reach through proxies that can be cut. Owns
// the actors that Add makes and stops them with itself.
struct Side {
  Side(const std::string& name, Serves serves) {
    RpcSecurity security;
    static const std::string token = Token::Generate();
    security.token = token;
    TransportOptions options;
    options.process_name = name;
    options.security = security;
    options.payload_bytes_max = payload_max;
    options.whole_payload_bytes_max = 64 << 10;
    options.session_timeout = session_timeout;
    options.frames = frames;
    transport = Transport::Create(options, host);
    if (serves == Serves::kNothing) return;
    path = "/tmp/contract-test-" + RandomHex(6);
    endpoint = "unix:" + path + "-proxy.sock";
    RpcServerOptions server_options;
    server_options.addresses = {"unix:" + path + ".sock"};
    server_options.security = security;
    server = RpcServer::Start(server_options, {transport->service()}).value();
    has_rings = serves == Serves::kRings;
    if (has_rings) REQUIRE(transport->ServeRings(server_options.addresses[0]).ok());
    StartProxies();
  }
  // Of those who call this side:
  void CutConnections() {
    for (const auto& proxy : proxies) proxy->Cut();
  }
  // They break, and nobody listens any more.
  void StopProxies() { proxies.clear(); }
  void StartProxies() {
    proxies.push_back(
        std::make_unique<testing::CutProxy>(path + "-proxy.sock", path + ".sock", UnixSocketKind::kStream));
    if (!has_rings) return;
    proxies.push_back(
        std::make_unique<testing::CutProxy>(path + "-proxy.ring", path + ".ring", UnixSocketKind::kSeqPacket));
  }
  // New ones get no answer.
  void Stall(bool stalls) {
    for (const auto& proxy : proxies) proxy->Stall(stalls);
  }
  ~Side() {
    for (auto& cell : cells) cell->Stop("the test ends", MonotonicNow() + absl::Seconds(10));
    transport->Shutdown();
  }
  // A started Subject.
  ActorAddress Add(const std::string& role, uint64_t incarnation) {
    ActorSetting setting;
    setting.self = {{JobId("job"), role, 0}, incarnation};
    setting.endpoint = endpoint;
    contexts.push_back(std::make_unique<ActorContext>(setting, transport, nullptr));
    // One executor of a process takes idle work, as in a worker.
    std::shared_ptr<IdleWork> idle = cells.empty() ? transport->idle_work() : nullptr;
    cells.push_back(std::make_shared<ActorCell>(
        *ActorRegistry::Global().Find("Subject").value(), std::make_unique<Subject>(), *contexts.back(),
        ActorCellOptions{.mailbox = {.messages_max = kMailboxMax}, .idle = std::move(idle)}));
    REQUIRE(cells.back()->Start().ok());
    host.Add(cells.back());
    return {setting.self, endpoint};
  }

  // Of sides that are made from now on:
  inline static absl::Duration session_timeout = absl::Seconds(10);
  inline static size_t payload_max = kPayloadMax;
  inline static FrameLimits frames;

  std::string path;
  bool has_rings = false;
  std::string endpoint;
  ActorHost host;
  std::shared_ptr<Transport> transport;
  std::unique_ptr<RpcServer> server;
  std::vector<std::unique_ptr<testing::CutProxy>> proxies;
  std::vector<std::unique_ptr<ActorContext>> contexts;
  std::vector<std::shared_ptr<ActorCell>> cells;
};

// A caller, and actors that it calls over the transport under test: two of the callee, and a `second` of its own
// process.
struct World {
  std::string name;
  std::unique_ptr<Side> caller, callee;  // The callee is null where both are one process.
  ActorAddress address, second, beside;  // Life 5 of "subject" and "beside", of the callee; of "second", of the caller.

  Ref<Subject> At(const ActorAddress& at) const { return Ref<Subject>(at, caller->transport); }
  Ref<Subject> ref() const { return At(address); }
  Side& side() const { return callee == nullptr ? *caller : *callee; }
};

World InProcess() {
  World world{"in one process", std::make_unique<Side>("one", Serves::kNothing), nullptr, {}, {}, {}};
  world.address = world.caller->Add("subject", 5);
  world.second = world.caller->Add("second", 5);
  world.beside = world.side().Add("beside", 5);
  return world;
}
World Between(const std::string& name, Serves serves) {
  World world{name, std::make_unique<Side>("caller", serves), std::make_unique<Side>("callee", serves), {}, {}, {}};
  world.address = world.callee->Add("subject", 5);
  world.second = world.caller->Add("second", 5);
  world.beside = world.side().Add("beside", 5);
  return world;
}
World GrpcStream() { return Between("gRPC stream", Serves::kGrpc); }
World Rings() { return Between("shared-memory rings", Serves::kRings); }

// Runs the test in a fresh World each; no call may be left open, and each peer must be reached as the World's name
// says.
void Over(const std::vector<World (*)()>& worlds, const std::function<void(World&)>& test) {
  for (auto make : worlds) {
    World world = make();
    INFO(world.name);
    test(world);
    CHECK(world.caller->transport->open_calls() == 0);
    for (const Connection& connection : world.caller->transport->Connections()) {
      if (connection.dialed) CHECK(connection.how.find(world.name) == 0);
    }
  }
}
void OverEach(const std::function<void(World&)>& test) { Over({&InProcess, &GrpcStream, &Rings}, test); }
void OverEachConnection(const std::function<void(World&)>& test) { Over({&GrpcStream, &Rings}, test); }

}  // namespace
}  // namespace troupe
