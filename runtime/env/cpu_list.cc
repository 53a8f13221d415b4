// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/cpu_list.h"

#include <sched.h>

#include <charconv>
#include <memory>

namespace troupe {
namespace {

constexpr int kCpuMax = 8191;

bool TakeNumber(std::string_view& text, int& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

std::vector<int> ParseCpuList(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::vector<int> cpus;
  for (bool more = !text.empty(); more;) {
    int first = 0, last = 0;
    if (!TakeNumber(text, first)) return {};
    last = first;
    if (!text.empty() && text.front() == '-') {
      text.remove_prefix(1);
      if (!TakeNumber(text, last)) return {};
    }
    if (last < first || last > kCpuMax || cpus.size() > kCpuMax) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    more = !text.empty();
    if (more && text.front() != ',') return {};
    if (more) text.remove_prefix(1);
  }
  return cpus;
}

std::string CpuListText(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> UsableCpus() {
  const size_t bytes = CPU_ALLOC_SIZE(kCpuMax + 1);
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kCpuMax + 1), [](cpu_set_t* s) { CPU_FREE(s); });
  std::vector<int> cpus;
  if (::sched_getaffinity(0, bytes, set.get()) != 0) return cpus;
  for (int cpu = 0; cpu <= kCpuMax; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace troupe
