// SPDX-License-Identifier: Apache-2.0
// Greeter: an actor that counts whom it has greeted.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/troupe.h"

class Greeter : public troupe::Actor {
 public:
  explicit Greeter(std::string greeting) : greeting_(std::move(greeting)) {}
  std::string Greet(const std::string& name) {
    ++greeted_;
    return greeting_ + ", " + name + "!";
  }
  int64_t Greeted() const { return greeted_; }

 private:
  const std::string greeting_;
  int64_t greeted_ = 0;
};
TROUPE_ACTOR(Greeter, TROUPE_METHODS(Greet, Greeted), TROUPE_INIT(std::string));
