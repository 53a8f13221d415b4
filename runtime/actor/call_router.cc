// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/call_router.h"

#include "runtime/actor/local_calls.h"

namespace troupe {

CallRouter::CallRouter() : waits_(std::make_shared<WaitGraph>()), local_calls_(std::make_shared<LocalCalls>()) {}
CallRouter::CallRouter(const CallRouter& other) : waits_(other.waits_), local_calls_(other.local_calls_) {}
CallRouter::~CallRouter() = default;

}  // namespace troupe
