// SPDX-License-Identifier: Apache-2.0
// A thread, from a system that may have no more of them.
#pragma once

#include <functional>
#include <thread>

#include "absl/status/statusor.h"

namespace troupe {

// Runs `work` on a thread of its own, for the caller to join. RESOURCE_EXHAUSTED: the system gives this process no more
// threads; the message says which limits there are. Any thread; locks may be held.
absl::StatusOr<std::thread> StartThread(std::function<void()> work);

}  // namespace troupe
