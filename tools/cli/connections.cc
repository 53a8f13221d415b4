// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/connections.h"

#include <memory>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/actor.grpc.pb.h"

namespace troupe::cli {
namespace {

constexpr absl::Duration kAskTimeout = absl::Seconds(1);
// At once: each is a channel and its descriptors.
constexpr size_t kAskedMax = 256;

struct Question {
  std::unique_ptr<v1::ActorTransport::Stub> stub;
  grpc::ClientContext context;
  v1::ListConnectionsRequest request;
  v1::ListConnectionsResponse response;
  absl::Status status;
};

// A Unix socket that is not there belongs to another machine.
std::string EndpointOf(const v1::ActorAddress& address) {
  constexpr std::string_view kUnix = "unix:";
  const std::string& local = address.endpoint();
  bool is_here = local.rfind(kUnix, 0) != 0 || FileExists(local.substr(kUnix.size()));
  return is_here ? local : address.remote_endpoint();
}

std::vector<std::string> Lines(const v1::ListConnectionsResponse& said) {
  std::vector<std::string> lines;
  for (const v1::Connection& connection : said.connections()) {
    lines.push_back((connection.dialed() ? "to " : "from ") + connection.process() + ": " + connection.how());
  }
  auto add = [&lines](uint64_t count, const std::string& what) {
    if (count > 0) lines.push_back(std::to_string(count) + " " + what);
  };
  add(said.refused_frames(), "frames refused");
  add(said.refused_sessions(), "sessions refused");
  add(said.duplicate_frames(), "frames that came twice dropped");
  add(said.broken(), "connections broke, " + std::to_string(said.resumed()) + " went on");
  return lines;
}

}  // namespace

std::vector<std::vector<std::string>> ConnectionsOf(const std::vector<v1::Actor>& actors, const RpcSecurity& security) {
  std::vector<std::unique_ptr<Question>> questions;
  Mutex mutex;
  ConditionVariable answered;
  size_t open = 0;
  for (const v1::Actor& actor : actors) {
    questions.emplace_back();
    if (actor.state() != v1::ACTOR_READY || questions.size() > kAskedMax) continue;
    auto question = std::make_unique<Question>();
    question->stub = v1::ActorTransport::NewStub(MakeChannel(EndpointOf(actor.address()), security));
    SetTimeout(question->context, kAskTimeout);
    questions.back() = std::move(question);
    ++open;
  }
  for (const auto& question : questions) {
    if (question == nullptr) continue;
    question->stub->async()->ListConnections(&question->context, &question->request, &question->response,
                                             [&, asked = question.get()](const grpc::Status& status) {
                                               MutexLock lock(mutex);
                                               asked->status = FromGrpc(status);
                                               --open;
                                               answered.NotifyAll();
                                             });
  }
  MutexLock lock(mutex);
  answered.WaitUntil(lock, Monotonic::Infinite(), [&open] { return open == 0; });
  std::vector<std::vector<std::string>> lines;
  for (const auto& question : questions) {
    if (question == nullptr) {
      lines.emplace_back();
    } else if (!question->status.ok()) {
      lines.push_back({"cannot be asked from here: " + StatusText(question->status)});
    } else {
      lines.push_back(Lines(question->response));
    }
  }
  return lines;
}

}  // namespace troupe::cli
