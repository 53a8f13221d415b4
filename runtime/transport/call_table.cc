// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/call_table.h"

#include <algorithm>
#include <functional>

namespace troupe {
namespace {

// Below that many the heap is not made anew.
constexpr size_t kDeadlinesMin = 4096;

}  // namespace

absl::StatusOr<uint64_t> CallTable::Add(std::unique_ptr<OpenCall>& call) {
  if (calls_.size() >= limits_.calls_max) {
    return absl::ResourceExhaustedError(std::to_string(calls_.size()) + " calls of this process are open already");
  }
  if (bytes_ + call->bytes > limits_.bytes_max) {
    return absl::ResourceExhaustedError("the open calls of this process hold " + std::to_string(bytes_) + " of " +
                                        std::to_string(limits_.bytes_max) + " bytes");
  }
  const uint64_t id = call->id = next_id_++;
  bytes_ += call->bytes;
  AddDeadline(call->deadline, id);
  if (call->acknowledges) repeating_.insert(id);
  calls_.emplace(id, std::move(call));
  return id;
}

std::unique_ptr<OpenCall> CallTable::Take(uint64_t id) {
  auto found = calls_.find(id);
  if (found == calls_.end()) return nullptr;
  std::unique_ptr<OpenCall> call = std::move(found->second);
  calls_.erase(found);
  bytes_ -= call->bytes;
  if (call->acknowledges) repeating_.erase(id);
  return call;
}

void CallTable::PutBack(OpenCall call) {
  bytes_ += call.bytes;
  AddDeadline(call.deadline, call.id);
  if (call.acknowledges) repeating_.insert(call.id);
  uint64_t id = call.id;
  calls_.emplace(id, std::make_unique<OpenCall>(std::move(call)));
}

const OpenCall* CallTable::Find(uint64_t id) const {
  auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second.get();
}

std::vector<OpenCall> CallTable::TakeExpired(Monotonic now) {
  std::vector<OpenCall> taken;
  while (!deadlines_.empty() && deadlines_.front().first <= now) {
    auto [deadline, id] = deadlines_.front();
    PopDeadline();
    const OpenCall* call = Find(id);
    if (call != nullptr && call->deadline == deadline) taken.push_back(std::move(*Take(id)));
  }
  return taken;
}

void CallTable::AddDeadline(Monotonic deadline, uint64_t id) {
  if (deadlines_.size() >= kDeadlinesMin && deadlines_.size() > 4 * calls_.size()) DropStaleDeadlines();
  deadlines_.emplace_back(deadline, id);
  std::push_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
}

void CallTable::PopDeadline() const {
  std::pop_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  deadlines_.pop_back();
}

void CallTable::DropStaleDeadlines() {
  deadlines_.clear();
  for (const auto& [id, call] : calls_) deadlines_.emplace_back(call->deadline, id);
  std::make_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
}

template <typename Predicate>
std::vector<OpenCall> CallTable::TakeIf(Predicate predicate) {
  std::vector<uint64_t> ids;
  for (const auto& [id, call] : calls_) {
    if (predicate(*call)) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  std::vector<OpenCall> taken;
  for (uint64_t id : ids) taken.push_back(std::move(*Take(id)));
  return taken;
}

std::vector<OpenCall> CallTable::TakeStream(uint64_t stream) {
  return TakeIf([stream](const OpenCall& call) { return call.stream == stream; });
}

std::vector<OpenCall> CallTable::TakeTarget(const ActorLife& life) {
  return TakeIf([&life](const OpenCall& call) {
    return call.target().path == life.path && call.target().incarnation <= life.incarnation;
  });
}

std::vector<OpenCall> CallTable::TakeAll() {
  return TakeIf([](const OpenCall&) { return true; });
}

Monotonic CallTable::NextDeadline() const {
  while (!deadlines_.empty()) {
    const OpenCall* call = Find(deadlines_.front().second);
    if (call != nullptr && call->deadline == deadlines_.front().first) return call->deadline;
    PopDeadline();
  }
  return Monotonic::Infinite();
}

}  // namespace troupe
