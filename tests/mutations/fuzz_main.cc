// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target (libFuzzer's entry point) on the files of its corpus and damaged copies of them:
//
//   TARGET --runs=N FILE...       N inputs          TARGET --seconds=S FILE...    as many as fit into S seconds
//
// Input i is the same in every run, whatever the length; when one ends the process its number is printed, and
// `--only=i` runs it alone.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/mutations/mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr uint64_t kForever = UINT64_MAX;

volatile uint64_t current = 0;

void TellInput(int signal) {
  char line[80];
  const int length = std::snprintf(line, sizeof line, "fuzz: input %llu, --only=%llu runs it alone\n",
                                   static_cast<unsigned long long>(current), static_cast<unsigned long long>(current));
  std::fwrite(line, 1, static_cast<size_t>(length), stderr);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::string ReadCorpusFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(std::istreambuf_iterator<char>(file), {});
  if (content.empty()) {
    std::fprintf(stderr, "fuzz: no corpus file %s, or it is empty\n", path.c_str());
    std::exit(2);
  }
  return content;
}

// The files as they are, then damaged ones in turn; every other one twice over, so that damage adds up.
void RunInput(const std::vector<std::string>& corpus, uint64_t i) {
  current = i;
  std::string input = corpus[i % corpus.size()];
  if (i >= corpus.size()) {
    std::mt19937_64 random(i);
    input = troupe::Mutate(std::move(input), random);
    if (i % 2 == 0) input = troupe::Mutate(std::move(input), random);
  }
  if (LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size()) != 0) {
    std::fprintf(stderr, "fuzz: the target calls an input wrong\n");
    std::abort();
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t first = 0, runs = kForever;
  double seconds = 0;
  std::vector<std::string> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument.substr(argument.find('=') + 1);
    if (argument.starts_with("--runs=")) {
      runs = std::stoull(value);
    } else if (argument.starts_with("--seconds=")) {
      seconds = std::stod(value);
    } else if (argument.starts_with("--only=")) {
      first = std::stoull(value);
      runs = 1;
    } else {
      corpus.push_back(ReadCorpusFile(argument));
    }
  }
  if (corpus.empty() || (runs == kForever && seconds == 0)) {
    std::fprintf(stderr, "usage: %s --runs=N|--seconds=S|--only=I FILE...\n", argv[0]);
    return 2;
  }
  std::signal(SIGABRT, TellInput);
#ifndef __SANITIZE_ADDRESS__  // which tells more about it, and aborts then
  std::signal(SIGSEGV, TellInput);
#endif
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  uint64_t done = 0;
  for (; done < runs && (runs != kForever || std::chrono::steady_clock::now() < end); ++done)
    RunInput(corpus, first + done);
  std::printf("%llu inputs from %zu files\n", static_cast<unsigned long long>(done), corpus.size());
  return 0;
}
