// SPDX-License-Identifier: Apache-2.0
// Link: one stream between a node and the head, as a reliable connection behaves: each way in order, with delay; held
// back while its direction is cut; when it breaks each end learns it at another time, and what was under way is lost.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "scheduler/core/events.h"
#include "tests/simulation/simulator.h"

namespace troupe::simulation {

// Which directions between a node and the head are cut.
struct Cuts {
  bool to_head = false;
  bool to_node = false;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  struct Ends {
    std::function<void(v1::AgentToHead)> at_head;
    std::function<void(v1::HeadToAgent)> at_node;
    std::function<void()> closed_at_head;
    std::function<void()> closed_at_node;
  };
  Link(Simulator* simulator, const Cuts* cuts, scheduler::SessionId id, Ends ends)
      : simulator_(simulator), cuts_(cuts), id_(id), ends_(std::move(ends)) {}

  scheduler::SessionId id() const { return id_; }
  bool open_at_node() const { return node_open_; }

  void ToHead(v1::AgentToHead message) {
    if (!node_open_) return;
    Carry(&last_to_head_, &Cuts::to_head, [self = shared_from_this(), message = std::move(message)] {
      if (self->head_open_ && !self->broken_) self->ends_.at_head(message);
    });
  }
  void ToNode(v1::HeadToAgent message) {
    if (!head_open_) return;
    Carry(&last_to_node_, &Cuts::to_node, [self = shared_from_this(), message = std::move(message)] {
      if (self->node_open_ && !self->broken_) self->ends_.at_node(message);
    });
  }
  // An orderly end by the head: what it sent before arrives first.
  void CloseByHead() {
    if (!head_open_) return;
    head_open_ = false;
    Carry(&last_to_node_, &Cuts::to_node, [self = shared_from_this()] { self->CloseAtNode(); });
    ends_.closed_at_head();
  }
  // The node's end is gone (a crash, a new dial); the head learns of it later, after what was sent before.
  void CloseByNode() {
    if (!node_open_) return;
    node_open_ = false;
    Carry(&last_to_head_, &Cuts::to_head, [self = shared_from_this()] { self->CloseAtHead(); });
  }
  // The connection breaks: nothing under way arrives.
  void Break() {
    broken_ = true;
    auto self = shared_from_this();
    simulator_->After(simulator_->Between(absl::ZeroDuration(), absl::Seconds(8)), [self] { self->CloseAtHead(); });
    simulator_->After(simulator_->Between(absl::ZeroDuration(), absl::Seconds(8)), [self] { self->CloseAtNode(); });
  }

 private:
  void Carry(Monotonic* last, bool Cuts::*cut, std::function<void()> arrive) {
    int64_t slowest_ms = simulator_->Chance(95) ? 5 : simulator_->Chance(80) ? 800 : 4000;
    absl::Duration delay = simulator_->Between(absl::Microseconds(50), absl::Milliseconds(slowest_ms));
    *last = std::max(*last, simulator_->now() + delay);
    simulator_->At(*last, [self = shared_from_this(), cut, arrive = std::move(arrive)] { self->Pass(cut, arrive); });
  }
  // Held back while its direction is cut; order is kept since all of a direction wait for the same moment.
  void Pass(bool Cuts::*cut, const std::function<void()>& arrive) {
    std::deque<std::function<void()>>& held = cut == &Cuts::to_head ? held_to_head_ : held_to_node_;
    held.push_back(arrive);
    Flush(cut);
  }
  void Flush(bool Cuts::*cut) {
    std::deque<std::function<void()>>& held = cut == &Cuts::to_head ? held_to_head_ : held_to_node_;
    if (cuts_->*cut) {
      simulator_->After(absl::Milliseconds(100), [self = shared_from_this(), cut] { self->Flush(cut); });
      return;
    }
    while (!held.empty()) {
      auto arrive = std::move(held.front());
      held.pop_front();
      arrive();
    }
  }
  void CloseAtHead() {
    if (!std::exchange(head_open_, false)) return;
    ends_.closed_at_head();
  }
  void CloseAtNode() {
    if (!std::exchange(node_open_, false)) return;
    ends_.closed_at_node();
  }

  Simulator* const simulator_;
  const Cuts* const cuts_;
  const scheduler::SessionId id_;
  const Ends ends_;
  bool head_open_ = true;
  bool node_open_ = true;
  bool broken_ = false;
  Monotonic last_to_head_;
  Monotonic last_to_node_;
  std::deque<std::function<void()>> held_to_head_;
  std::deque<std::function<void()>> held_to_node_;
};

}  // namespace troupe::simulation
