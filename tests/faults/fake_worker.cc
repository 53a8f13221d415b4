// SPDX-License-Identifier: Apache-2.0
// A worker that speaks the agent's protocol and nothing else. Its role's class says how it behaves:
//   Good       ready at once, ends when asked
//   Stubborn   as Good, but does not end when asked
//   Crash      ready, then exit status 7
//   Silent     never says hello
//   Parent     as Good, with a daemon in a session of its own
// Each writes its pid to `pids` in its working directory.
#include <grpcpp/client_context.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "runtime/base/ids.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/rpc/channel.h"
#include "troupe/v1/agent.grpc.pb.h"

namespace troupe {
namespace {

using Stream = grpc::ClientReaderWriter<v1::WorkerToAgent, v1::AgentToWorker>;

struct Life {
  ActorLife actor;
  std::string behaviour;  // Known after the assignment.
  bool ready = false;
};

void WritePid() { std::ofstream("pids", std::ios::app) << ::getpid() << std::endl; }

void StartDaemon() {
  if (std::system("(setsid sh -c 'echo $$ >> pids; exec sleep 1000' > /dev/null 2>&1 &)") != 0) std::exit(9);
}

void OnAssignment(Life& life, const v1::WorkerAssignment& assignment, Stream& stream) {
  life.behaviour = assignment.start().role().actor_class();
  if (life.behaviour == "Parent") StartDaemon();
  life.ready = true;
  v1::WorkerToAgent ready;
  ready.mutable_ready()->set_endpoint("unix:/fake");
  stream.Write(ready);
  std::printf("ready as %s\n", life.behaviour.c_str());
  std::fflush(stdout);
  if (life.behaviour == "Crash") std::_Exit(7);
}

// One stream; returns how it ended.
grpc::Status Serve(v1::Agent::Stub& stub, Life& life) {
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = stub.WorkerSession(&context);
  v1::WorkerToAgent hello;
  *hello.mutable_hello()->mutable_actor() = life.actor.ToProto();
  hello.mutable_hello()->set_pid(::getpid());
  hello.mutable_hello()->set_reconnect(life.ready);
  hello.mutable_hello()->set_ready(life.ready);
  hello.mutable_hello()->set_endpoint(life.ready ? "unix:/fake" : "");
  stream->Write(hello);
  std::thread heart;
  std::atomic<bool> ended = false;
  v1::AgentToWorker message;
  while (stream->Read(&message)) {
    if (message.has_assignment()) OnAssignment(life, message.assignment(), *stream);
    if (message.has_stop() && life.behaviour != "Stubborn") std::_Exit(0);
    if (!heart.joinable()) {
      heart = std::thread([&] {
        v1::WorkerToAgent beat;
        beat.mutable_heartbeat();
        while (!ended && stream->Write(beat)) PauseFor(absl::Milliseconds(50));
      });
    }
  }
  ended = true;
  if (heart.joinable()) heart.join();
  return stream->Finish();
}

int Main() {
  WritePid();
  Life life;
  life.actor = ActorLife::Parse(EnvironmentVariable("TROUPE_WORKER")).value();
  if (life.actor.path.role == "silent") PauseFor(absl::Seconds(1000));
  RpcSecurity security;
  security.token = Token::FromDescriptor(std::atoi(EnvironmentVariable("TROUPE_TOKEN_FD").c_str())).value();
  auto channel = MakeChannel("unix:" + EnvironmentVariable("TROUPE_AGENT_SOCKET"), security);
  std::unique_ptr<v1::Agent::Stub> stub = v1::Agent::NewStub(channel);
  // Bounded, so that nothing is left of a test that failed.
  Monotonic end = MonotonicNow() + absl::Seconds(60);
  while (MonotonicNow() < end) {
    if (Serve(*stub, life).error_code() == grpc::StatusCode::NOT_FOUND) return 5;
    PauseFor(absl::Milliseconds(20));
  }
  return 6;
}

}  // namespace
}  // namespace troupe

int main() { return troupe::Main(); }
