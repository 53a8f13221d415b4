// SPDX-License-Identifier: Apache-2.0
// Actors of CAF 0.17 within one process: the peer of the local_* works of `troupe bench actor`. Compiled and run by
// caf_actors.py; prints one JSON object a line.
#include <algorithm>
#include <caf/all.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using AddAtom = caf::atom_constant<caf::atom("add")>;
using NoteAtom = caf::atom_constant<caf::atom("note")>;
using GoAtom = caf::atom_constant<caf::atom("go")>;

constexpr int kRepeats = 9;
constexpr double kSeconds = 0.2;
constexpr int64_t kInFlight = 1024;
constexpr int64_t kBatch = 400;  // One-way messages between two requests, as in ours.
constexpr int kCrowd = 1000;

double Since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Sum {
  int64_t value = 0;
};
caf::behavior Called(caf::stateful_actor<Sum>* self) {
  return {[self](AddAtom, int64_t n) { return self->state.value += n; },
          [self](NoteAtom, int64_t n) { self->state.value += n; }};
}

struct Calls {
  int64_t count = 0;
  int64_t open = 0;
  bool over = false;
  Clock::time_point begin;
};

// A new request for each reply, so many without one; then the rate to who listens.
void CallOnce(caf::stateful_actor<Calls>* self, const caf::actor& other, const caf::actor& listener) {
  ++self->state.open;
  self->request(other, caf::infinite, AddAtom::value, int64_t{1}).then([=](int64_t) {
    Calls& calls = self->state;
    --calls.open;
    if (++calls.count % 64 == 0) calls.over = Since(calls.begin) > kSeconds;
    if (!calls.over) {
      CallOnce(self, other, listener);
    } else if (calls.open == 0) {
      self->send(listener, static_cast<double>(calls.count) / Since(calls.begin));
      self->quit();
    }
  });
}
caf::behavior Caller(caf::stateful_actor<Calls>* self, const caf::actor& other, const caf::actor& listener) {
  return {[=](GoAtom) {
    self->state.begin = Clock::now();
    for (int64_t i = 0; i < kInFlight; ++i) CallOnce(self, other, listener);
  }};
}

void SendBatch(caf::stateful_actor<Calls>* self, const caf::actor& other, const caf::actor& listener) {
  for (int64_t i = 0; i < kBatch; ++i) self->send(other, NoteAtom::value, int64_t{1});
  self->state.count += kBatch;
  ++self->state.open;
  self->request(other, caf::infinite, AddAtom::value, int64_t{0}).then([=](int64_t) {
    Calls& calls = self->state;
    --calls.open;
    if (Since(calls.begin) < kSeconds) {
      SendBatch(self, other, listener);
    } else if (calls.open == 0) {
      self->send(listener, static_cast<double>(calls.count) / Since(calls.begin));
      self->quit();
    }
  });
}
caf::behavior Sender(caf::stateful_actor<Calls>* self, const caf::actor& other, const caf::actor& listener) {
  return {[=](GoAtom) {
    self->state.begin = Clock::now();
    for (int i = 0; i < 2; ++i) SendBatch(self, other, listener);  // One on its way while the other is made.
  }};
}

void Show(const char* name, const char* unit, const std::function<double()>& sample) {
  sample();
  std::vector<double> samples;
  for (int i = 0; i < kRepeats; ++i) samples.push_back(sample());
  std::sort(samples.begin(), samples.end());
  std::printf("{\"name\": \"%s\", \"unit\": \"%s\", \"median\": %g, \"min\": %g, \"max\": %g, \"n\": %d}\n", name, unit,
              samples[kRepeats / 2], samples.front(), samples.back(), kRepeats);
  std::fflush(stdout);
}

double SyncCalls(caf::actor_system& system) {
  caf::scoped_actor self(system);
  caf::actor called = self->spawn(Called);
  int64_t count = 0;
  Clock::time_point begin = Clock::now();
  for (; Since(begin) < kSeconds; ++count) {
    self->request(called, caf::infinite, AddAtom::value, int64_t{1}).receive([](int64_t) {}, [](caf::error&) {});
  }
  double each = Since(begin) / static_cast<double>(count) * 1e6;
  self->send_exit(called, caf::exit_reason::user_shutdown);
  return each;
}

double Spawns(caf::actor_system& system) {
  caf::scoped_actor self(system);
  double took = 0;
  int64_t count = 0;
  for (Clock::time_point begin = Clock::now(); Since(begin) < kSeconds; count += kCrowd) {
    std::vector<caf::actor> actors;
    actors.reserve(kCrowd);
    Clock::time_point spawned = Clock::now();
    for (int i = 0; i < kCrowd; ++i) actors.push_back(self->spawn(Called));
    took += Since(spawned);
    for (const caf::actor& actor : actors) self->send_exit(actor, caf::exit_reason::user_shutdown);
    self->wait_for(actors);
  }
  return static_cast<double>(count) / took;
}

template <typename Behavior>
double ByActor(caf::actor_system& system, Behavior behavior) {
  caf::scoped_actor self(system);
  caf::actor called = self->spawn(Called);
  caf::actor caller = self->spawn(behavior, called, caf::actor_cast<caf::actor>(self));
  self->send(caller, GoAtom::value);
  double rate = 0;
  self->receive([&rate](double told) { rate = told; });
  self->send_exit(called, caf::exit_reason::user_shutdown);
  return rate;
}

}  // namespace

int main() {
  caf::actor_system_config config;
  caf::actor_system system(config);
  Show("local_call_sync", "us", [&] { return SyncCalls(system); });
  Show("local_call_pipelined", "calls/s", [&] { return ByActor(system, Caller); });
  Show("local_send", "msgs/s", [&] { return ByActor(system, Sender); });
  Show("local_spawn", "actors/s", [&] { return Spawns(system); });
}
