// SPDX-License-Identifier: Apache-2.0
// FakeAgent: the node agent's side of WorkerSession for tests of workers; says what it is told to and records what it
// hears.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/agent.grpc.pb.h"

namespace troupe {

// Fields are read and written under `mutex` while a server runs.
class FakeAgent : public v1::Agent::Service {
 public:
  grpc::Status WorkerSession(grpc::ServerContext* context,
                             grpc::ServerReaderWriter<v1::AgentToWorker, v1::WorkerToAgent>* stream) override {
    v1::WorkerToAgent message;
    if (!stream->Read(&message) || !message.has_hello()) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "");
    {
      MutexLock lock(mutex);
      if (refuse) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such worker");
      hellos.push_back(message.hello());
      current = stream;
      if (!message.hello().reconnect()) {
        v1::AgentToWorker answer;
        *answer.mutable_assignment() = assignment;
        stream->Write(answer);
      }
      changed.NotifyAll();
    }
    while (stream->Read(&message)) {
      MutexLock lock(mutex);
      if (message.has_heartbeat()) ++heartbeats;
      if (message.has_ready()) ready = message.ready();
      if (message.has_ended()) ended = message.ended().text();
      if (message.has_start_failed()) start_failed = FromErrorStatus(message.start_failed().error());
      changed.NotifyAll();
    }
    MutexLock lock(mutex);
    current = nullptr;
    (void)context;
    return grpc::Status::OK;
  }

  template <typename Predicate>
  bool Await(Predicate predicate) {
    MutexLock lock(mutex);
    return changed.WaitUntil(lock, MonotonicNow() + absl::Seconds(20), predicate);
  }
  void Stop(const std::string& reason, int64_t grace_ms = 10'000) {
    MutexLock lock(mutex);
    v1::AgentToWorker message;
    message.mutable_stop()->set_reason(reason);
    message.mutable_stop()->set_grace_ms(grace_ms);
    if (current != nullptr) current->Write(message);
  }

  Mutex mutex;
  ConditionVariable changed;
  v1::WorkerAssignment assignment;
  bool refuse = false;
  grpc::ServerReaderWriter<v1::AgentToWorker, v1::WorkerToAgent>* current = nullptr;
  std::vector<v1::WorkerHello> hellos;
  int heartbeats = 0;
  std::optional<v1::WorkerIsReady> ready;
  absl::Status start_failed;
  std::optional<std::string> ended;
};

}  // namespace troupe
