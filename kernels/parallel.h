// SPDX-License-Identifier: Apache-2.0
//
// How a kernel spreads over threads it does not own: the caller hands in a function that runs numbered tasks.

#pragma once

#include <cstdint>

namespace troupe::kernels {

// Tasks of one call write disjoint memory, so that the result does not depend on who runs which. The default runs them
// one by one.
class Parallel {
 public:
  using Task = void (*)(void* state, int64_t index);
  // Runs task(state, i) for i in [0, tasks), each once, and returns when all are done.
  using Run = void (*)(void* context, int64_t tasks, Task task, void* state);

  Parallel() = default;
  Parallel(int threads, Run run, void* context) : threads_(threads), run_(run), context_(context) {}

  int threads() const { return threads_; }

  // `body(i)` for i in [0, tasks).
  template <typename Body>
  void For(int64_t tasks, const Body& body) const {
    if (run_ == nullptr || tasks <= 1 || threads_ <= 1) {
      for (int64_t i = 0; i < tasks; ++i) body(i);
      return;
    }
    run_(
        context_, tasks, [](void* state, int64_t index) { (*static_cast<const Body*>(state))(index); },
        const_cast<Body*>(&body));
  }

  // `body(begin, end)` over [0, rows), cut into at most one piece a thread; a piece has at least kMinElements elements,
  // because waking another thread costs as much as they do.
  template <typename Body>
  void ForRows(int64_t rows, int64_t elements_per_row, const Body& body) const {
    const int64_t worth = rows * elements_per_row / kMinElements;
    const int64_t pieces = worth < 1 ? 1 : (worth < threads_ ? worth : threads_);
    For(pieces, [&](int64_t i) { body(rows * i / pieces, rows * (i + 1) / pieces); });
  }

 private:
  static constexpr int64_t kMinElements = 32768;

  int threads_ = 1;
  Run run_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace troupe::kernels
