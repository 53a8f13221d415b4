// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/node_holds.h"

#include <utility>

namespace troupe {

bool NodeHolds::Add(const ObjectId& id, int64_t bytes) {
  auto [held, is_new] = held_.try_emplace(id, Held{bytes});
  dropped_.erase(id);
  if (is_new) added_.insert(id);
  return held->second.told;
}

void NodeHolds::Drop(const ObjectId& id) {
  if (held_.erase(id) == 0) return;
  added_.erase(id);
  dropped_.insert(id);
}

std::optional<NodeHolds::Request> NodeHolds::Next(Monotonic now) {
  if (asking_ || idle()) return std::nullopt;
  bool news = !added_.empty() || !dropped_.empty();
  if (now < at_ && (failed_ || !news)) return std::nullopt;
  asking_ = true;
  asked_ = Request();
  asked_.all = std::exchange(all_, false);
  while (!added_.empty() && asked_.add.size() < kNamesMax) {
    ObjectId id = *added_.begin();
    added_.erase(added_.begin());
    asked_.add.emplace_back(id, held_.at(id).bytes);
  }
  while (!dropped_.empty() && asked_.drop.size() < kNamesMax) {
    asked_.drop.push_back(*dropped_.begin());
    dropped_.erase(dropped_.begin());
  }
  return asked_;
}

std::vector<ObjectId> NodeHolds::Answered(bool known, Monotonic now) {
  asking_ = false;
  failed_ = false;
  at_ = now + kPeriod;
  std::vector<ObjectId> told;
  if (!known) {
    at_ = now;
    SayAll();
    return told;
  }
  for (const auto& [id, bytes] : asked_.add) {
    auto held = held_.find(id);
    if (held == held_.end() || std::exchange(held->second.told, true)) continue;
    told.push_back(id);
  }
  return told;
}

void NodeHolds::Failed(Monotonic now) {
  asking_ = false;
  failed_ = true;
  at_ = now + kPeriod;
  SayAll();
}

void NodeHolds::SayAll() {
  all_ = true;
  dropped_.clear();
  for (const auto& [id, held] : held_) added_.insert(id);
}

}  // namespace troupe
