// SPDX-License-Identifier: Apache-2.0
// The threads of gRPC's callback API.
#pragma once

namespace troupe {

// Keeps them for the life of the process. gRPC 1.51 ends them with the last channel or server that used the callback
// API; when that goes inside a reaction (`delete this` in OnDone), the thread joins itself and the process aborts.
// Called by MakeChannel and RpcServer::Start.
void KeepCallbackThreads();

}  // namespace troupe
