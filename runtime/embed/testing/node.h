// SPDX-License-Identifier: Apache-2.0
// Node: an actor that counts its lives and ends, and does what its name says. For one test program's one file each.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/embed/runtime.h"
#include "runtime/embed/testing/gate.h"

namespace troupe_test {

class Node : public troupe::Actor {
 public:
  explicit Node(std::string name) : name_(std::move(name)) {
    if (name_ == "broken") throw std::runtime_error("no such part");
    if (name_ == "gated") constructors.Pass();
  }
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    if (name_ == "late") return absl::FailedPreconditionError("not today");
    if (name_ == "breaks again" && context.restarts() > 0) return absl::AbortedError("again");
    if (name_ == "slow") starts.Pass();
    ++alive;
    counted_ = true;
    return absl::OkStatus();
  }
  void OnStop(std::string_view) override {
    if (name_ == "witness") ++witnessed;
  }
  ~Node() override {
    if (counted_) --alive;
  }

  std::string Name() const { return name_; }
  absl::StatusOr<troupe::Ref<Node>> SpawnChild(const std::string& name, bool detached) {
    return context_->Spawn<Node>({.name = name, .detached = detached}, name);
  }
  void Throw() { throw std::runtime_error("broken inside"); }
  void StopSelf() { context_->StopSelf("I am done"); }
  void Link(troupe::Ref<Node> other) { context_->Link(other); }
  void Monitor(troupe::Ref<Node> other) {
    context_->Monitor(other, [this](const troupe::ActorLife& life, const troupe::v1::ExitCause& cause) {
      seen_ += life.path.role + ": " + cause.text() + ";";
    });
  }
  std::string Seen() const { return seen_; }
  void Wait() { handlers.Pass(); }
  absl::StatusOr<int64_t> Half(int64_t n) {
    if (n % 2 != 0) return absl::InvalidArgumentError(std::to_string(n) + " is odd");
    return n / 2;
  }

  inline static std::atomic<int> alive{0}, witnessed{0};
  // "gated" waits at the first as it is made, "slow" at the second as it starts, handlers of Wait at the third.
  inline static Gate constructors, starts, handlers;

 private:
  const std::string name_;
  bool counted_ = false;
  std::string seen_;
  troupe::ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Node, TROUPE_METHODS(Name, SpawnChild, Throw, StopSelf, Link, Monitor, Seen, Wait, Half),
             TROUPE_INIT(std::string));

}  // namespace troupe_test
