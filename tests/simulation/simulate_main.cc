// SPDX-License-Identifier: Apache-2.0
// Runs seeds of the simulation, in several processes; of one that breaks it prints the smallest variation and its
// script.
//   simulate --seeds FROM..TO [--processes N]       many, each as it is drawn
//   simulate --seed N [--without BITS] [--faults N] [--users N] [--nodes N] [--script]      one again
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/shrink.h"

namespace troupe::simulation {
namespace {

constexpr int kFailuresShownMax = 3;  // By each process: shrinking takes long.

bool Number(std::string_view text, auto& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size() &&
         !text.empty();
}

void Show(const Variation& variation, const Outcome& outcome) {
  std::cout << variation.ToString() << ": " << outcome.broken << "\n";
  for (const std::string& line : outcome.script) std::cout << "    " << line << "\n";
}

// Each `step`-th seed from `first`. Returns how many broke.
int RunSome(uint64_t first, uint64_t last, uint64_t step) {
  int broken = 0;
  int64_t steps = 0;
  for (uint64_t seed = first; seed <= last; seed += step) {
    Outcome outcome = RunOnce({.seed = seed});
    steps += outcome.counts.steps;
    if (outcome.broken.empty()) continue;
    std::cout << "seed " << seed << ": " << outcome.broken << std::endl;
    if (++broken > kFailuresShownMax) continue;
    const Variation least = Shrink({.seed = seed});
    Show(least, RunOnce(least));
  }
  std::cout << "from " << first << " by " << step << ": " << steps << " steps, " << broken << " seeds broke"
            << std::endl;
  return broken;
}

int RunMany(uint64_t first, uint64_t last, int processes) {
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    std::cout.flush();
    pid_t child = ::fork();
    if (child < 0) break;
    if (child == 0) {
      const int broken = RunSome(first + static_cast<uint64_t>(p), last, static_cast<uint64_t>(processes));
      std::cout.flush();
      ::_exit(broken > 0 ? 1 : 0);
    }
    children.push_back(child);
  }
  bool good = static_cast<int>(children.size()) == processes;
  for (pid_t child : children) {
    int status = 0;
    good = ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && good;
  }
  return good ? 0 : 1;
}

int Main(int argc, char** argv) {
  Variation one;
  uint64_t first = 0, last = 0;
  int processes = 1;
  bool script = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--script") {
      script = true;
      continue;
    }
    const std::string_view value = i + 1 < argc ? argv[++i] : "";
    const size_t dots = value.find("..");
    const bool range = flag == "--seeds" && dots != std::string_view::npos && Number(value.substr(0, dots), first) &&
                       Number(value.substr(dots + 2), last) && first <= last;
    const bool good =
        range || (flag == "--seed" && Number(value, one.seed)) || (flag == "--without" && Number(value, one.without)) ||
        (flag == "--faults" && Number(value, one.faults_max)) || (flag == "--users" && Number(value, one.users_max)) ||
        (flag == "--nodes" && Number(value, one.nodes_max)) ||
        (flag == "--processes" && Number(value, processes) && processes > 0 && processes <= 256);
    if (good) continue;
    std::cerr << "simulate: '" << flag << " " << value << "' is not understood; see simulate_main.cc\n";
    return 2;
  }
  if (last > 0) return RunMany(first, last, processes);
  const Outcome outcome = RunOnce(one);
  if (script || !outcome.broken.empty()) Show(one, outcome);
  if (outcome.broken.empty()) {
    std::cout << one.ToString() << ": nothing broke in " << outcome.counts.steps << " steps\n";
    return 0;
  }
  const Variation least = Shrink(one);
  Show(least, RunOnce(least));
  return 1;
}

}  // namespace
}  // namespace troupe::simulation

int main(int argc, char** argv) { return troupe::simulation::Main(argc, argv); }
