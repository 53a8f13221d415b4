// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/local_calls.h"

#include <algorithm>

namespace troupe {

void LocalCalls::Arm(std::weak_ptr<Call> call, Monotonic deadline) {
  std::function<void()> sooner;
  {
    MutexLock lock(mutex_);
    if (armed_.size() >= armed_max_) DropEnded();
    if (armed_.empty() || deadline < armed_.front().deadline) sooner = sooner_;
    armed_.push_back({deadline, std::move(call)});
    std::push_heap(armed_.begin(), armed_.end(), std::greater<>());
  }
  if (sooner) sooner();
}

void LocalCalls::DropEnded() {
  std::erase_if(armed_, [](const Armed& armed) { return armed.call.expired(); });
  std::make_heap(armed_.begin(), armed_.end(), std::greater<>());
  armed_max_ = std::max(kArmedMin, 2 * armed_.size());
}

Monotonic LocalCalls::NextDeadline() const {
  MutexLock lock(mutex_);
  return armed_.empty() ? Monotonic::Infinite() : armed_.front().deadline;
}

std::vector<std::shared_ptr<LocalCalls::Call>> LocalCalls::TakeDue(Monotonic now) {
  std::vector<std::shared_ptr<Call>> due;
  MutexLock lock(mutex_);
  while (!armed_.empty() && armed_.front().deadline <= now) {
    std::pop_heap(armed_.begin(), armed_.end(), std::greater<>());
    if (auto call = armed_.back().call.lock()) due.push_back(std::move(call));
    armed_.pop_back();
  }
  return due;
}

void LocalCalls::SetTimer(std::function<void()> sooner) {
  MutexLock lock(mutex_);
  sooner_ = std::move(sooner);
}

uint64_t LocalCalls::Number(std::weak_ptr<Call> call) {
  MutexLock lock(mutex_);
  uint64_t number = kFirstNumber + numbered_++;
  numbers_.emplace(number, std::move(call));
  return number;
}

void LocalCalls::Forget(uint64_t number) {
  MutexLock lock(mutex_);
  numbers_.erase(number);
}

std::shared_ptr<LocalCalls::Call> LocalCalls::Find(uint64_t number) const {
  MutexLock lock(mutex_);
  auto found = numbers_.find(number);
  return found == numbers_.end() ? nullptr : found->second.lock();
}

}  // namespace troupe
