// SPDX-License-Identifier: Apache-2.0
// Calls between two processes of this machine, with what the machine itself needs beside them: a bare futex ping-pong,
// asleep and spinning. One iteration of a round trip is one call; items are calls.
//
//   bazel run //runtime/transport:ring_benchmark -- --benchmark_repetitions=5 --benchmark_enable_random_interleaving
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/actor.h"
#include "runtime/actor/actor_cell.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/ref.h"
#include "runtime/base/check.h"
#include "runtime/env/clock.h"
#include "runtime/env/futex.h"
#include "runtime/rpc/server.h"
#include "runtime/transport/transport.h"

namespace troupe {
namespace {

constexpr int kInFlight = 1024;
constexpr absl::Duration kSpin = absl::Milliseconds(1);

class Adder : public Actor {
 public:
  int64_t Add(int64_t n) { return sum_ += n; }

 private:
  int64_t sum_ = 0;
};
TROUPE_ACTOR(Adder, TROUPE_METHODS(Add), TROUPE_INIT());

// Runs `work` in a process of its own, which ends with this one. Before this process has threads.
template <typename Work>
void Fork(Work work) {
  pid_t child = ::fork();
  TROUPE_CHECK(child >= 0, "fork");
  if (child > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  work();
  while (true) ::pause();
}

// The bare limit: two words that two processes wait for.
struct PingPong {
  std::atomic<uint32_t> ping{0}, pong{0};
  static PingPong& Shared() {
    void* memory = ::mmap(nullptr, sizeof(PingPong), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) PingPong();
  }
};

PingPong& Asleep() {
  static PingPong& words = *[] {
    PingPong* words = &PingPong::Shared();
    Fork([words] {
      for (uint32_t n = 0;; ++n) {
        while (words->ping.load() == n) FutexWait(words->ping, n, 1, Monotonic::Infinite());
        words->pong.fetch_add(1);
        FutexWake(words->pong, 1);
      }
    });
    return words;
  }();
  return words;
}

struct Peers {
  RpcSecurity security;
  std::string path = "/tmp/ring-benchmark-" + std::to_string(::getpid());
  ActorLife life = {{JobId("benchmark"), "adder", 0}, 1};

  std::shared_ptr<Transport> NewTransport(const std::string& name, ActorHost& host, absl::Duration spin) const {
    TransportOptions options;
    options.process_name = name;
    options.security = security;
    options.ring_spin = spin;
    return Transport::Create(options, host);
  }
  std::string Endpoint(bool rings, bool spins) const {
    return "unix:" + path + (rings ? spins ? "-spin" : "-ring" : "-grpc") + ".sock";
  }

  void Serve(bool rings, absl::Duration spin) const {
    auto* host = new ActorHost();
    auto* transport = new std::shared_ptr<Transport>(NewTransport("adder", *host, spin));
    ActorSetting setting;
    setting.self = life;
    setting.endpoint = Endpoint(rings, spin > absl::ZeroDuration());
    auto* context = new ActorContext(setting, *transport, nullptr);
    ActorCellOptions options;
    options.mailbox.messages_max = 4 * kInFlight;
    options.idle = (*transport)->idle_work();
    auto* cell = new std::shared_ptr<ActorCell>(std::make_shared<ActorCell>(
        *ActorRegistry::Global().Find("Adder").value(), std::make_unique<Adder>(), *context, options));
    TROUPE_CHECK((*cell)->Start().ok(), "start");
    host->Add(*cell);
    if (rings) TROUPE_CHECK((*transport)->ServeRings(setting.endpoint).ok(), "rings");
    RpcServerOptions server;
    server.addresses = {setting.endpoint};
    server.security = security;
    static std::vector<std::unique_ptr<RpcServer>> servers;
    servers.push_back(RpcServer::Start(server, {(*transport)->service()}).value());
  }

  Peers() {
    security.token = Token::Generate();
    Asleep();
    Fork([this] {
      Serve(true, absl::ZeroDuration());
      Serve(true, kSpin);
      Serve(false, absl::ZeroDuration());
    });
  }
  static const Peers& Get() {
    static const Peers& peers = *new Peers();
    return peers;
  }
};

// A ref whose calls take that way.
Ref<Adder> RefOver(bool rings, bool spins) {
  const Peers& peers = Peers::Get();
  static ActorHost host;
  static auto& transport = *new std::shared_ptr<Transport>(peers.NewTransport("caller", host, absl::ZeroDuration()));
  static auto& spinning = *new std::shared_ptr<Transport>(peers.NewTransport("spinner", host, kSpin));
  Ref<Adder> ref({peers.life, peers.Endpoint(rings, spins)}, spins ? spinning : transport);
  for (Monotonic end = MonotonicNow() + absl::Seconds(20); MonotonicNow() < end;) {
    if (ref.Call<&Adder::Add>(0).Get().ok()) return ref;
    PauseFor(absl::Milliseconds(20));
  }
  TROUPE_CHECK(false, "the other process does not answer");
}

void BM_FutexRoundTrip(benchmark::State& state) {
  Peers::Get();
  PingPong& words = Asleep();
  for (auto _ : state) {
    uint32_t seen = words.pong.load();
    words.ping.fetch_add(1);
    FutexWake(words.ping, 1);
    while (words.pong.load() == seen) FutexWait(words.pong, seen, 1, Monotonic::Infinite());
  }
  state.SetItemsProcessed(state.iterations());
}

void RoundTrip(benchmark::State& state, bool rings, bool spins) {
  Ref<Adder> ref = RefOver(rings, spins);
  for (auto _ : state) {
    if (!ref.Call<&Adder::Add>(1).Get().ok()) state.SkipWithError("a call failed");
  }
  state.SetItemsProcessed(state.iterations());
}

void Pipelined(benchmark::State& state, bool rings) {
  Ref<Adder> ref = RefOver(rings, false);
  std::vector<Future<int64_t>> calls(kInFlight);
  for (Future<int64_t>& call : calls) call = ref.Call<&Adder::Add>(1);
  size_t next = 0;
  for (auto _ : state) {
    if (!calls[next].Get().ok()) state.SkipWithError("a call failed");
    calls[next] = ref.Call<&Adder::Add>(1);
    next = (next + 1) % kInFlight;
  }
  for (Future<int64_t>& call : calls) (void)call.Get();
  state.SetItemsProcessed(state.iterations());
}

void BM_RingRoundTrip(benchmark::State& state) { RoundTrip(state, true, false); }
void BM_RingRoundTripSpinning(benchmark::State& state) { RoundTrip(state, true, true); }
void BM_GrpcRoundTrip(benchmark::State& state) { RoundTrip(state, false, false); }
void BM_RingPipelined(benchmark::State& state) { Pipelined(state, true); }
void BM_GrpcPipelined(benchmark::State& state) { Pipelined(state, false); }

BENCHMARK(BM_FutexRoundTrip)->UseRealTime();
BENCHMARK(BM_RingRoundTrip)->UseRealTime();
BENCHMARK(BM_RingRoundTripSpinning)->UseRealTime();
BENCHMARK(BM_RingPipelined)->UseRealTime();
BENCHMARK(BM_GrpcRoundTrip)->UseRealTime();
BENCHMARK(BM_GrpcPipelined)->UseRealTime();

}  // namespace
}  // namespace troupe
