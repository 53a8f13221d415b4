// SPDX-License-Identifier: Apache-2.0
// FakeHead: a head that does what a test says, for tests of the node agent. It welcomes, answers heartbeats and
// acknowledges exits by itself; orders come from the test.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/rpc/server.h"
#include "troupe/v1/node.grpc.pb.h"

namespace troupe::tests {

class FakeHead : public v1::NodeControl::Service {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(20);

  FakeHead(std::string address, std::string token) : address_(std::move(address)), token_(std::move(token)) {}
  ~FakeHead() override { Stop(); }

  // Serves; a stopped one can be started again (what it heard is forgotten).
  void Start();
  void Stop();

  // What the next welcomes say.
  void SetWelcome(uint64_t term, uint64_t node_incarnation);

  void StartWorker(const ActorLife& actor, const std::string& behaviour, const std::string& output_dir,
                   absl::Duration hang_timeout = absl::Seconds(30));
  void StopWorker(const ActorLife& actor, absl::Duration grace);

  v1::RegisterNode WaitRegistration(size_t count);
  void WaitReady(const ActorLife& actor);
  v1::ExitCause WaitExit(const ActorLife& actor);
  size_t registrations();
  int heartbeats();

  grpc::Status Session(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::HeadMessages, v1::AgentMessages>* stream) override;

 private:
  using Stream = grpc::ServerReaderWriter<v1::HeadMessages, v1::AgentMessages>;
  void Handle(const v1::AgentToHead& message, Stream& stream);
  void Send(const v1::HeadToAgent& message);
  bool WaitUntil(const std::function<bool()>& condition);

  const std::string address_;
  const std::string token_;
  std::unique_ptr<RpcServer> server_;
  Mutex mutex_;
  ConditionVariable changed_;
  Stream* stream_ = nullptr;
  uint64_t term_ = 1;
  uint64_t node_incarnation_ = 1;
  std::vector<v1::AgentToHead> heard_;
  int heartbeats_ = 0;
};

}  // namespace troupe::tests
