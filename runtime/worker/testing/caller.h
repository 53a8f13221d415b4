// SPDX-License-Identifier: Apache-2.0
// WorkerCaller: a process that calls a worker's actor, for tests of workers.
#pragma once

#include <memory>

#include "runtime/actor/actor_host.h"
#include "runtime/transport/transport.h"

namespace troupe {

struct WorkerCaller {
  explicit WorkerCaller(const RpcSecurity& security) {
    TransportOptions options;
    options.process_name = "test";
    options.security = security;
    transport = Transport::Create(options, host);
  }
  ~WorkerCaller() { transport->Shutdown(); }

  ActorHost host;  // Of no actors.
  std::shared_ptr<Transport> transport;
};

}  // namespace troupe
