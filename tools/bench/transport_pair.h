// SPDX-License-Identifier: Apache-2.0
// TransportPair: an actor in another process that is called over ways which a runtime does not choose by itself between
// two processes of one machine: a gRPC stream, and rings whose readers spin. Beside them plain gRPC, on the same port.
#pragma once

#include <memory>
#include <string>

#include "runtime/actor/actor_host.h"
#include "runtime/env/shared_memory.h"
#include "runtime/transport/transport.h"
#include "tools/bench/bare_grpc.h"
#include "tools/bench/bench_peer.h"
#include "tools/bench/far_side.h"

namespace troupe::bench {

class TransportPair {
 public:
  // Starts the other process, while this one has one thread. `folder`: a private one for its socket. `spin`: how long
  // readers of the rings spin before they sleep.
  static absl::StatusOr<std::unique_ptr<TransportPair>> Start(const std::string& folder, absl::Duration spin);
  ~TransportPair();

  // Connects; once, when there may be threads.
  absl::Status Connect();
  const Ref<BenchPeer>& by_grpc() const { return by_grpc_; }
  const Ref<BenchPeer>& by_spinning_rings() const { return by_spinning_rings_; }
  const BareGrpc& bare() const { return *bare_; }

 private:
  struct Ports;
  TransportPair() = default;
  void Serve() const;
  std::shared_ptr<Transport> NewTransport(const std::string& name, ActorHost& host, bool rings) const;
  void ServeActor(const std::string& endpoint, bool rings) const;

  RpcSecurity security_;
  absl::Duration spin_;
  std::string ring_endpoint_;
  SharedMemory memory_;
  Ports* ports_ = nullptr;
  std::unique_ptr<FarSide> far_side_;

  ActorHost host_;  // Of no actors.
  std::shared_ptr<Transport> grpc_, spinning_;
  Ref<BenchPeer> by_grpc_, by_spinning_rings_;
  std::unique_ptr<BareGrpc> bare_;
};

}  // namespace troupe::bench
