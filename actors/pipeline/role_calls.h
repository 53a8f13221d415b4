// SPDX-License-Identifier: Apache-2.0
// RoleCalls: sends the pipeline's calls to the role actors. This is where a user's own class takes the place of a
// built-in one: whatever has methods of the same names and messages may stand behind a role (roles.R.class).
#pragma once

#include <functional>
#include <string>

#include "actors/pipeline/pipeline_event.h"
#include "runtime/actor/actor_context.h"

namespace troupe {

// Generating, training and saving take as long as they take; a worker that hangs is found by its heartbeat, so this
// bound only ends what nothing else ends.
inline constexpr absl::Duration kRoleCallTimeout = absl::Hours(6);

// Sends without waiting to the role's actor, which is of the built-in class, or of `class_name` unless that is empty.
// `deliver` gets a CallDone or CallFailed later, on any thread, or at once.
void SendRoleCall(ActorContext& context, const CallRole& call, const std::string& class_name,
                  std::function<void(PipelineEvent)> deliver);

}  // namespace troupe
