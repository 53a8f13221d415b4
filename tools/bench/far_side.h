// SPDX-License-Identifier: Apache-2.0
// FarSide: another process of this program, which runs one function. It ends with this process, or with this object.
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>

#include "absl/status/statusor.h"

namespace troupe::bench {

class FarSide {
 public:
  // While this process has one thread. `run` returns when the process may serve on with the threads it has made.
  static absl::StatusOr<FarSide> Start(const std::function<void()>& run);
  FarSide(FarSide&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
  FarSide& operator=(FarSide&&) = delete;
  ~FarSide();

 private:
  explicit FarSide(pid_t process) : process_(process) {}
  pid_t process_;
};

}  // namespace troupe::bench
