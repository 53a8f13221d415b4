// SPDX-License-Identifier: Apache-2.0
// A head that takes its time: actors that wait for it do not hold up others, which share their thread.
#include <catch2/catch.hpp>

#include "runtime/embed/testing/node.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/rpc/server.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe {
namespace {

using troupe_test::Gate;
using troupe_test::Node;

// Waits at a gate in each RPC; of its one job the actor gets ready when it is told so.
class SlowHead final : public v1::Head::Service {
 public:
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*, v1::ListNodesResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override {
    submit.Pass();
    role_ = request->spec().roles(0).role();
    response->set_job_id("job");
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job* job) override {
    get.Pass();
    job->set_state(v1::JOB_RUNNING);
    return grpc::Status::OK;
  }
  grpc::Status StopJob(grpc::ServerContext*, const v1::StopJobRequest*, v1::Job*) override {
    stop.Pass();
    return grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::Job*) override {
    cancel.Pass();
    return grpc::Status::OK;
  }
  grpc::Status WatchActors(grpc::ServerContext* context, const v1::WatchActorsRequest*,
                           grpc::ServerWriter<v1::ActorUpdate>* writer) override {
    ready.Pass();
    v1::ActorUpdate update;
    v1::Actor& actor = *update.add_actors();
    actor.set_state(v1::ACTOR_READY);
    *actor.mutable_address()->mutable_actor() = ActorLife{{JobId("job"), role_, 0}, 1}.ToProto();
    actor.mutable_address()->set_endpoint("unix:/nowhere/worker.sock");
    writer->Write(update);
    static_cast<void>(Eventually([&] { return context->IsCancelled(); }, absl::Seconds(60)));
    return grpc::Status::OK;
  }

  Gate submit, get, ready, stop, cancel;

 private:
  std::string role_;
};

class Spawner : public Actor {
 public:
  absl::Status OnStart(ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }
  absl::Status SpawnProcess() { return context_->Spawn<Node>({.name = "far", .cpus = 1}, "far").status(); }

 private:
  ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Spawner, TROUPE_METHODS(SpawnProcess), TROUPE_INIT());

TEST_CASE("Runtime: actors that wait for the head hold up no others", "[runtime]") {
  SlowHead head;
  RpcSecurity security;
  security.token = Token::Generate();
  auto server = RpcServer::Start({.addresses = {"127.0.0.1:0"}, .security = security}, {&head}).value();
  const std::string target = "127.0.0.1:" + std::to_string(server->ports()[0]);
  Runtime runtime = Runtime::Connect(target, security, {.threads = 1}).value();
  Ref<Spawner> spawner = runtime.Spawn<Spawner>({}).value();
  Ref<Node> other = runtime.Spawn<Node>({}, "other").value();
  auto answers = [&] { return other.Call<&Node::Name>().Get().ok(); };

  for (Gate* gate : {&head.submit, &head.get, &head.ready, &head.stop}) gate->Close();
  Future<void> spawned = spawner.Call<&Spawner::SpawnProcess>();
  REQUIRE(head.submit.AwaitWaiting());
  CHECK(answers());
  head.submit.Open();
  REQUIRE((head.ready.AwaitWaiting() && head.get.AwaitWaiting()));
  CHECK(answers());
  head.get.Open();
  CHECK(answers());  // While it waits for the actor to be ready.
  head.ready.Open();
  CHECK(spawned.Get().ok());

  // Its end ends what it has spawned.
  CHECK(runtime.Stop(spawner, "enough").ok());
  REQUIRE(head.stop.AwaitWaiting());
  CHECK(answers());
  head.stop.Open();
}

}  // namespace
}  // namespace troupe
