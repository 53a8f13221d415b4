// SPDX-License-Identifier: Apache-2.0
// Actors of Ray in C++: the peer of `troupe bench actor`. Compiled twice by ray_cpp_actors.py: as the program, and as
// the library that Ray's workers load. Prints one JSON object a line.
#include <ray/api.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 5;
constexpr double kSeconds = 0.3;
constexpr int kInFlight = 1000;
constexpr size_t kMiB = 1 << 20;

double Since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void Show(const char* name, const char* unit, std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  std::printf("{\"name\": \"%s\", \"unit\": \"%s\", \"median\": %g, \"min\": %g, \"max\": %g, \"n\": %zu}\n", name,
              unit, samples[samples.size() / 2], samples.front(), samples.back(), samples.size());
  std::fflush(stdout);
}

// What `batch` counts, a second.
double Rate(const std::function<int64_t()>& batch) {
  int64_t count = 0;
  Clock::time_point begin = Clock::now();
  do count += batch();
  while (Since(begin) < kSeconds);
  return static_cast<double>(count) / Since(begin);
}

std::vector<double> Repeat(const std::function<double()>& sample) {
  sample();
  std::vector<double> samples;
  for (int i = 0; i < kRepeats; ++i) samples.push_back(sample());
  return samples;
}

}  // namespace

class Peer {
 public:
  static Peer* Make() { return new Peer; }
  int64_t Add(int64_t n) { return sum_ += n; }
  int64_t Length(std::string bytes) { return static_cast<int64_t>(bytes.size()); }

 private:
  int64_t sum_ = 0;
};
RAY_REMOTE(Peer::Make, &Peer::Add, &Peer::Length);

int main(int argc, char** argv) {
  Clock::time_point begin = Clock::now();
  ray::RayConfig config;
  config.code_search_path = {std::getenv("RAY_CPP_LIBRARIES")};
  ray::Init(config, argc, argv);
  Show("runtime_start", "ms", {Since(begin) * 1e3});
  begin = Clock::now();
  auto peer = ray::Actor(Peer::Make).Remote();
  peer.Task(&Peer::Add).Remote(int64_t{1}).Get();
  Show("process_spawn", "ms", {Since(begin) * 1e3});
  Show("call_sync", "us", Repeat([&] {
         return 1e6 / Rate([&]() -> int64_t {
                  peer.Task(&Peer::Add).Remote(int64_t{1}).Get();
                  return 1;
                });
       }));
  Show("call_pipelined", "calls/s", Repeat([&] {
         return Rate([&]() -> int64_t {
           std::vector<ray::ObjectRef<int64_t>> answers;
           for (int i = 0; i < kInFlight; ++i) answers.push_back(peer.Task(&Peer::Add).Remote(int64_t{1}));
           ray::Get(answers);
           return kInFlight;
         });
       }));
  std::string bytes(kMiB, 'x');
  for (int in_flight : {1, 50}) {
    Show(in_flight == 1 ? "argument_1MiB_sync" : "argument_1MiB_pipelined", "GB/s", Repeat([&] {
           return kMiB / 1e9 * Rate([&]() -> int64_t {
                    std::vector<ray::ObjectRef<int64_t>> answers;
                    for (int i = 0; i < in_flight; ++i) answers.push_back(peer.Task(&Peer::Length).Remote(bytes));
                    ray::Get(answers);
                    return in_flight;
                  });
         }));
  }
  ray::Shutdown();
  ::_exit(0);
}
