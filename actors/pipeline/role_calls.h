// SPDX-License-Identifier: Apache-2.0
// RoleCalls: sends the pipeline's calls to the role actors. This is where a user's own class takes the place of a
// built-in one: whatever answers the same messages may stand behind the names.
#pragma once

#include <functional>

#include "actors/pipeline/pipeline_event.h"
#include "runtime/actor/actor_context.h"

namespace troupe {

// Generating, training and saving take as long as they take; a worker that hangs is found by its heartbeat, so this
// bound only ends what nothing else ends.
inline constexpr absl::Duration kRoleCallTimeout = absl::Hours(6);

// Sends without waiting; `deliver` gets a CallDone or CallFailed later, on any thread, or at once.
void SendRoleCall(ActorContext& context, const CallRole& call, std::function<void(PipelineEvent)> deliver);

}  // namespace troupe
