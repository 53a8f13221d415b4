// SPDX-License-Identifier: Apache-2.0
// Worker: a user's actor class, for tests of actors in processes of their own.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/env/clock.h"
#include "runtime/troupe.h"

namespace troupe_test {

class Worker : public troupe::Actor {
 public:
  explicit Worker(int64_t start) : value_(start) {
    if (start < 0) throw std::runtime_error("negative");
  }
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }
  int64_t Add(int64_t n) { return value_ += n; }
  int64_t Pid() const { return ::getpid(); }
  std::string Variable(const std::string& name) const {
    const char* value = ::getenv(name.c_str());
    return value == nullptr ? "" : value;
  }
  void StopSelf() { context_->StopSelf("I am done"); }
  void Throw() { throw std::runtime_error("broken inside"); }
  void Sleep(int64_t ms) { troupe::PauseFor(absl::Milliseconds(ms)); }
  void Link(troupe::Ref<Worker> other) { context_->Link(other); }
  void Monitor(troupe::Ref<Worker> other) {
    context_->Monitor(other, [this](const troupe::ActorLife& life, const troupe::v1::ExitCause& cause) {
      seen_ += life.path.role + ": " + cause.text() + ";";
    });
  }
  std::string Seen() const { return seen_; }
  // In a process of its own.
  absl::StatusOr<troupe::Ref<Worker>> SpawnProcess(const std::string& name, const std::string& program) {
    troupe::SpawnOptions options = {.name = name, .cpus = 0.1, .worker_binary = program, .restart = {.max = 3}};
    return context_->Spawn<Worker>(options, 1);
  }
  void Exit(int64_t code) { ::_exit(static_cast<int>(code)); }
  void Hang() { troupe::PauseFor(absl::Seconds(20)); }
  troupe::Task<int64_t> AskThroughRef(troupe::Ref<Worker> other) { co_return co_await other.Call<&Worker::Pid>(); }
  // Each asks the next one of `others`, the last answers.
  troupe::Task<int64_t> AskRound(std::vector<troupe::Ref<Worker>> others) {
    if (others.empty()) co_return ::getpid();
    troupe::Ref<Worker> next = others.front();
    others.erase(others.begin());
    co_return co_await next.Call<&Worker::AskRound>(others);
  }
  int64_t Length(const std::string& text) const { return static_cast<int64_t>(text.size()); }
  // "process by transport;" each.
  std::string Connections() const {
    std::string text;
    for (const troupe::Connection& connection : context_->connections()) {
      text += (connection.dialed ? "to " : "from ") + connection.process + " by " + connection.how + ";";
    }
    return text;
  }
  troupe::Stream<int64_t> Count(int64_t n) {
    for (int64_t i = 0; i < n; ++i) co_yield i;
    co_return absl::OkStatus();
  }
  // Objects: what this process makes, keeps and reads.
  absl::StatusOr<troupe::ObjectRef<troupe::Tensor>> MakeTensor(int64_t elements) {
    absl::StatusOr<troupe::TensorBuffer> buffer =
        context_->objects().NewTensor(troupe::DType::kInt64, std::vector<int64_t>{elements});
    if (!buffer.ok()) return buffer.status();
    for (int64_t i = 0; i < elements; ++i) buffer->values<int64_t>()[static_cast<size_t>(i)] = i;
    return troupe::ObjectRef<troupe::Tensor>(std::move(*buffer).Seal());
  }
  absl::StatusOr<int64_t> SumOf(const troupe::ObjectRef<troupe::Tensor>& ref) {
    absl::StatusOr<troupe::Tensor> tensor = context_->Get(ref);
    if (!tensor.ok()) return tensor.status();
    return SumOfTensor(*tensor);
  }
  int64_t SumOfTensor(const troupe::Tensor& tensor) {
    int64_t sum = 0;
    for (int64_t value : tensor.values<int64_t>()) sum += value;
    return sum;
  }
  void Keep(const std::vector<troupe::ObjectRef<troupe::Tensor>>& refs) { kept_ = refs; }
  absl::StatusOr<troupe::ObjectRef<troupe::Tensor>> Kept(int64_t i) { return kept_.at(static_cast<size_t>(i)); }
  absl::StatusOr<troupe::ObjectRef<troupe::Tensor>> MakeAndKeep(int64_t elements) {
    absl::StatusOr<troupe::ObjectRef<troupe::Tensor>> made = MakeTensor(elements);
    if (made.ok()) kept_ = {*made};
    return made;
  }

  // Of another actor's tensor; kept from then on.
  absl::StatusOr<int64_t> SumFrom(troupe::Ref<Worker> other, int64_t elements) {
    auto made = other.Call<&Worker::MakeTensor>(elements).Get();
    if (!made.ok()) return made.status();
    kept_ = {*made};
    return SumOf(*made);
  }
  absl::Status MakeKept(int64_t elements) { return MakeAndKeep(elements).status(); }
  // What another actor keeps, without reading it.
  absl::Status KeepFrom(troupe::Ref<Worker> other) {
    auto kept = other.Call<&Worker::Kept>(0).Get();
    if (kept.ok()) kept_ = {*kept};
    return kept.status();
  }
  absl::StatusOr<int64_t> SumOfKept() { return SumOf(kept_.at(0)); }
  std::string ExplainKept() { return context_->objects().Explain(kept_.at(0)); }
  absl::StatusOr<std::vector<int64_t>> FetchedAndSent() {
    auto figures = context_->objects().NodeFigures();
    if (!figures.ok()) return figures.status();
    return std::vector<int64_t>{figures->fetched_bytes(), figures->sent_bytes()};
  }

  absl::StatusOr<troupe::Ref<Worker>> SpawnChild() { return context_->Spawn<Worker>({.name = "child"}, 100); }

 private:
  int64_t value_;
  std::string seen_;
  troupe::ActorContext* context_ = nullptr;
  std::vector<troupe::ObjectRef<troupe::Tensor>> kept_;
};
TROUPE_ACTOR_INTERFACE(Worker,
                       TROUPE_METHODS(Add, Pid, Variable, StopSelf, Throw, Sleep, Link, Monitor, Seen, SpawnProcess,
                                      Exit, Hang, AskThroughRef, AskRound, Connections, Count, SpawnChild, MakeTensor,
                                      SumOf, SumOfTensor, Keep, Kept, MakeAndKeep, SumFrom, MakeKept, KeepFrom,
                                      SumOfKept, ExplainKept, FetchedAndSent, Length));

}  // namespace troupe_test
