// SPDX-License-Identifier: Apache-2.0
// Group<T>: a row of actors of one class that are called together. Every member has its own result or error. Safe to
// use from any thread, as refs are; what is gathered is one thread's.
//
//   Group<Worker> group = runtime.SpawnGroup<Worker>(4, {.name = "worker"}).value();
//   std::vector<absl::StatusOr<int64_t>> sizes = group.Broadcast<&Worker::Size>().Get();       // gather
//   absl::StatusOr<std::vector<int64_t>> all = group.Scatter<&Worker::Load>(parts).All();      // or the first error
//   absl::StatusOr<int64_t> sum = group.Broadcast<&Worker::Size>().Reduce(std::plus<>());
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/wait.h"
#include "runtime/base/status.h"

namespace troupe {

// The results of one call of a group, by member.
template <typename R>
class [[nodiscard]] Gathered {
 public:
  using Result = typename Future<R>::Result;

  Gathered(std::vector<ActorLife> members, std::vector<Future<R>> futures)
      : members_(std::move(members)), futures_(std::move(futures)) {}

  std::vector<Future<R>>& futures() { return futures_; }

  // Waits for all and uses them up. A member's own deadline ends its call at the latest.
  std::vector<Result> Get() {
    std::vector<Result> results;
    for (Future<R>& future : futures_) results.push_back(future.Get());
    return results;
  }

  // All results, or how many members failed and the first error (its code, payload and member).
  auto All() {
    if constexpr (std::is_void_v<R>) {
      return FirstError(Get());
    } else {
      std::vector<Result> results = Get();
      absl::StatusOr<std::vector<R>> values = std::vector<R>();
      if (absl::Status error = FirstError(results); !error.ok()) {
        values = error;
        return values;
      }
      for (Result& result : results) values->push_back(*std::move(result));
      return values;
    }
  }

  // op(op(r0, r1), r2)...: in the order of the members, whatever the order in which they answer. Errors as of All;
  // INVALID_ARGUMENT: an empty group.
  template <typename Op>
  absl::StatusOr<R> Reduce(Op op) {
    absl::StatusOr<std::vector<R>> values = All();
    if (!values.ok()) return values.status();
    if (values->empty()) return absl::InvalidArgumentError("an empty group has nothing to reduce");
    R total = std::move(values->front());
    for (size_t i = 1; i < values->size(); ++i) total = op(std::move(total), std::move((*values)[i]));
    return total;
  }

 private:
  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename V>
  static const absl::Status& StatusOf(const absl::StatusOr<V>& result) {
    return result.status();
  }

  absl::Status FirstError(const std::vector<Result>& results) const {
    size_t failed = 0, first = results.size();
    for (size_t i = 0; i < results.size(); ++i) {
      if (StatusOf(results[i]).ok()) continue;
      ++failed;
      first = std::min(first, i);
    }
    if (failed == 0) return absl::OkStatus();
    return Annotate(StatusOf(results[first]), std::to_string(failed) + " of " + std::to_string(results.size()) +
                                                  " members failed, " + members_[first].ToString() + " first");
  }

  std::vector<ActorLife> members_;
  std::vector<Future<R>> futures_;
};

template <typename T>
class Group {
 public:
  Group() = default;
  explicit Group(std::vector<Ref<T>> members) : members_(std::move(members)) {}

  size_t size() const { return members_.size(); }
  const Ref<T>& operator[](size_t i) const { return members_[i]; }
  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }

  // The same members with another time limit for their calls.
  Group WithTimeout(absl::Duration timeout) const {
    Group group = *this;
    for (Ref<T>& member : group.members_) member = member.WithTimeout(timeout);
    return group;
  }

  // The same call to every member; returns at once.
  template <auto kMethod, typename... Args>
  auto Broadcast(const Args&... args) const {
    using Result = typename internal::MethodTraits<decltype(kMethod)>::Result;
    std::vector<Future<Result>> futures;
    for (const Ref<T>& member : members_) futures.push_back(member.template Call<kMethod>(args...));
    return Gathered<Result>(Lives(), std::move(futures));
  }

  // parts[i] to member i, as the only argument. With fewer or more parts than members every result is INVALID_ARGUMENT
  // and nothing is called.
  template <auto kMethod, typename Part>
  auto Scatter(const std::vector<Part>& parts) const {
    using Result = typename internal::MethodTraits<decltype(kMethod)>::Result;
    std::vector<Future<Result>> futures;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (parts.size() == members_.size()) {
        futures.push_back(members_[i].template Call<kMethod>(parts[i]));
      } else {
        futures.push_back(Future<Result>::Of(
            absl::InvalidArgumentError("Scatter was given " + std::to_string(parts.size()) + " parts for " +
                                       std::to_string(members_.size()) + " members, and called none")));
      }
    }
    return Gathered<Result>(Lives(), std::move(futures));
  }

 private:
  std::vector<ActorLife> Lives() const {
    std::vector<ActorLife> lives;
    for (const Ref<T>& member : members_) lives.push_back(member.life());
    return lives;
  }

  std::vector<Ref<T>> members_;
};

}  // namespace troupe
