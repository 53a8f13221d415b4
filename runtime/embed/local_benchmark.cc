// SPDX-License-Identifier: Apache-2.0
// Actors within one process, called by an actor: what a call, a message and a new actor cost. (`troupe bench actor`
// measures the same beside other systems.)
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <deque>

#include "runtime/base/check.h"
#include "runtime/embed/runtime.h"

namespace troupe {

class LocalPeer : public Actor {
 public:
  int64_t Add(int64_t n) { return sum_ += n; }
  void Note(int64_t n) { sum_ += n; }
  int64_t CallMany(Ref<LocalPeer> other, int64_t count, int64_t in_flight) const {
    std::deque<Future<int64_t>> calls;
    for (int64_t i = 0; i < count; ++i) {
      if (static_cast<int64_t>(calls.size()) == in_flight) {
        TROUPE_CHECK(calls.front().Get().ok(), "an answer");
        calls.pop_front();
      }
      calls.push_back(other.Call<&LocalPeer::Add>(1));
    }
    for (auto& call : calls) TROUPE_CHECK(call.Get().ok(), "an answer");
    return count;
  }
  int64_t SendMany(Ref<LocalPeer> other, int64_t count) const {
    constexpr int64_t kBetweenCalls = 400;
    Future<int64_t> before = other.Call<&LocalPeer::Add>(0);
    for (int64_t sent = 0; sent < count;) {
      for (int64_t i = 0; i < kBetweenCalls; ++i, ++sent) TROUPE_CHECK(other.Send<&LocalPeer::Note>(1).ok(), "room");
      Future<int64_t> now = other.Call<&LocalPeer::Add>(0);
      TROUPE_CHECK(before.Get().ok(), "an answer");
      before = std::move(now);
    }
    TROUPE_CHECK(before.Get().ok(), "an answer");
    return count;
  }

 private:
  int64_t sum_ = 0;
};
TROUPE_ACTOR(LocalPeer, TROUPE_METHODS(Add, Note, CallMany, SendMany), TROUPE_INIT());

namespace {

struct Pair {
  Runtime runtime = Runtime::Local().value();
  Ref<LocalPeer> caller = runtime.Spawn<LocalPeer>({}).value(), called = runtime.Spawn<LocalPeer>({}).value();
};

void BM_Call(benchmark::State& state) {
  Pair pair;
  constexpr int64_t kCalls = 200'000;
  for (auto _ : state) {
    TROUPE_CHECK(pair.caller.Call<&LocalPeer::CallMany>(pair.called, kCalls, state.range(0)).Get().ok(), "calls");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kCalls);
}
BENCHMARK(BM_Call)->Arg(1)->Arg(1024)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_Send(benchmark::State& state) {
  Pair pair;
  constexpr int64_t kMessages = 400'000;
  for (auto _ : state) {
    TROUPE_CHECK(pair.caller.Call<&LocalPeer::SendMany>(pair.called, kMessages).Get().ok(), "messages");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kMessages);
}
BENCHMARK(BM_Send)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_Spawn(benchmark::State& state) {
  Pair pair;
  constexpr int64_t kActors = 1000;
  for (auto _ : state) {
    std::vector<Ref<LocalPeer>> actors;
    for (int64_t i = 0; i < kActors; ++i) actors.push_back(pair.runtime.Spawn<LocalPeer>({}).value());
    state.PauseTiming();
    for (const auto& actor : actors) TROUPE_CHECK(pair.runtime.Stop(actor, "counted").ok(), "stop");
    actors.clear();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kActors);
}
BENCHMARK(BM_Spawn)->Unit(benchmark::kMicrosecond);

// Of the heap, all arenas.
void BM_ActorBytes(benchmark::State& state) {
  Pair pair;
  constexpr int64_t kActors = 20'000;
  double bytes = 0;
  for (auto _ : state) {
    std::vector<Ref<LocalPeer>> actors;
    actors.reserve(kActors);
    const struct mallinfo2 before = ::mallinfo2();
    for (int64_t i = 0; i < kActors; ++i) actors.push_back(pair.runtime.Spawn<LocalPeer>({}).value());
    const struct mallinfo2 after = ::mallinfo2();
    bytes = static_cast<double>(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / kActors;
    for (const auto& actor : actors) TROUPE_CHECK(pair.runtime.Stop(actor, "counted").ok(), "stop");
  }
  state.counters["bytes_an_actor"] = bytes;
}
BENCHMARK(BM_ActorBytes)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace troupe
