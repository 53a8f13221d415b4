// SPDX-License-Identifier: Apache-2.0
// RunWorker: the life of a worker process, from its environment to its exit. A program that hosts actors calls it from
// main; which classes it hosts is what is linked in (runtime/actor/actor_class.h).
//
// Environment: TROUPE_WORKER (the actor's life, "job/role/replica#incarnation"), TROUPE_AGENT_SOCKET (path of the node
// agent's Unix socket), TROUPE_TOKEN_FD (an inherited descriptor with the token).
//
// Exit codes: 0 stopped as asked, or by its own wish · 1 the actor failed (the agent was told why) · 2 started wrongly
// (not by an agent, bad environment) · 3 the actor's constructor, its services or OnStart failed (the agent was told
// why) · 4 the grace was over before OnStop had ended · 5 the agent knows no such worker, or did not come back in time.
#pragma once

namespace troupe {

int RunWorker(int argc, char** argv);

}  // namespace troupe
