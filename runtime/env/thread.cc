// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/thread.h"

#include <string>
#include <system_error>
#include <utility>

namespace troupe {

absl::StatusOr<std::thread> StartThread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(std::string("the system gives this process no more threads (") + error.what() +
                                        "): raise the user's limit (ulimit -u) or the control group's (pids.max), or "
                                        "run fewer processes and fewer actors with threads of their own here");
  }
}

}  // namespace troupe
