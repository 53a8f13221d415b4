// SPDX-License-Identifier: Apache-2.0
// A worker program with one class, as a user would write it: for tests with real processes.
#include <chrono>
#include <iostream>
#include <thread>

#include "runtime/troupe.h"

namespace {

class Echo : public troupe::Actor {
 public:
  explicit Echo(std::string greeting) : greeting_(std::move(greeting)) {}
  void OnStop(std::string_view reason) override { std::cout << "stopped: " << reason << std::endl; }
  std::string Say(std::string text) { return greeting_ + text; }
  // Ignores that it should stop.
  void Hang() {
    std::cout << "hangs" << std::endl;
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

 private:
  std::string greeting_;
};
TROUPE_ACTOR(Echo, TROUPE_METHODS(Say, Hang), TROUPE_INIT(std::string));

}  // namespace

int main(int argc, char** argv) { return troupe::RunWorker(argc, argv); }
