// SPDX-License-Identifier: Apache-2.0
// Counts words: the parts of a text are scattered over a group, the counts gathered and added.
#include <iostream>
#include <map>
#include <sstream>

#include "runtime/troupe.h"

class WordCounter : public troupe::Actor {
 public:
  std::map<std::string, int64_t> Count(const std::string& text) {
    std::map<std::string, int64_t> counts;
    std::istringstream words(text);
    for (std::string word; words >> word;) ++counts[word];
    return counts;
  }
};
TROUPE_ACTOR(WordCounter, TROUPE_METHODS(Count), TROUPE_INIT());

int main() {
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  troupe::Group<WordCounter> group = runtime.SpawnGroup<WordCounter>(3, {.name = "counter"}).value();
  // [scatter]
  std::vector<std::string> parts = {"a rose is a rose", "is a rose", "a daisy is not"};
  for (const auto& counts : group.Scatter<&WordCounter::Count>(parts).Get()) {  // One result or error a member.
    if (!counts.ok()) std::cerr << counts.status().message() << "\n";
  }
  // [/scatter]
  using Counts = std::map<std::string, int64_t>;
  Counts total = group.Scatter<&WordCounter::Count>(parts)
                     .Reduce([](Counts sum, const Counts& more) {
                       for (const auto& [word, count] : more) sum[word] += count;
                       return sum;
                     })
                     .value();
  for (const auto& [word, count] : total) std::cout << word << " " << count << "\n";
}
