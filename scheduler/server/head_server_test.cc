// SPDX-License-Identifier: Apache-2.0
// HeadServer over real gRPC, with an agent played by the test.
#include "scheduler/server/head_server.h"

#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>
#include <fstream>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/head.grpc.pb.h"
#include "troupe/v1/node.grpc.pb.h"

namespace troupe {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(20);

struct Site {
  Site() : folder(MakeTemporaryDirectory("head-test").value()) {
    security.token = Token::Generate();
    Restart();
  }
  ~Site() {
    head.reset();
    RemoveTree(folder).IgnoreError();
  }
  void Restart() {
    head.reset();
    head = HeadServer::Start({.data_dir = folder + "/head", .security = security, .head_loss_grace = absl::Hours(1)})
               .value();
    channel = MakeChannel("127.0.0.1:" + std::to_string(head->port()), security);
    stub = v1::Head::NewStub(channel);
  }

  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response* response) {
    grpc::ClientContext context;
    SetTimeout(context, kTimeout);
    context.set_wait_for_ready(true);
    return FromGrpc((stub.get()->*method)(&context, request, response));
  }
  v1::SubmitJobRequest Spec(const std::string& request_id = "") {
    v1::SubmitJobRequest request;
    request.set_request_id(request_id);
    request.mutable_spec()->set_name("addition");
    request.mutable_spec()->set_output_dir(folder + "/run");
    for (const char* name : {"controller", "rollout"}) {
      v1::RoleSpec* role = request.mutable_spec()->add_roles();
      role->set_role(name);
      role->set_actor_class("Any");
      role->set_replicas(1);
      role->mutable_resources()->set_cpus(1);
    }
    return request;
  }
  std::string Submit() {
    v1::SubmitJobResponse response;
    REQUIRE(Call(&v1::Head::Stub::SubmitJob, Spec(), &response).ok());
    return response.job_id();
  }
  v1::Job Get(const std::string& id) {
    v1::GetJobRequest request;
    request.set_job_id(id);
    v1::Job job;
    REQUIRE(Call(&v1::Head::Stub::GetJob, request, &job).ok());
    return job;
  }

  std::string folder;
  RpcSecurity security;
  std::unique_ptr<HeadServer> head;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Head::Stub> stub;
};

// An agent's stream.
struct Agent {
  explicit Agent(Site& site, v1::RegisterNode node = {}) {
    stub = v1::NodeControl::NewStub(site.channel);
    SetTimeout(context, kTimeout);
    context.set_wait_for_ready(true);
    stream = stub->Session(&context);
    v1::AgentToHead message;
    *message.mutable_register_node() = std::move(node);
    message.mutable_register_node()->set_node_id("n1");
    message.mutable_register_node()->set_protocol_version(2);
    message.mutable_register_node()->mutable_resources()->set_cpus(4);
    Write(message);
  }
  ~Agent() {
    context.TryCancel();
    stream->Finish();
  }
  v1::HeadToAgent Read() {
    v1::HeadMessages messages;
    while (unread.empty()) {
      if (!stream->Read(&messages)) FAIL("the stream ended: " << StatusText(FromGrpc(stream->Finish())));
      unread.insert(unread.end(), messages.messages().begin(), messages.messages().end());
    }
    v1::HeadToAgent message = unread.front();
    unread.pop_front();
    return message;
  }
  void Write(const v1::AgentToHead& message) {
    v1::AgentMessages messages;
    *messages.add_messages() = message;
    stream->Write(messages);
  }
  void Exited(const v1::ActorIncarnation& actor, v1::ExitCause::Kind kind) {
    v1::AgentToHead message;
    *message.mutable_worker_exited()->mutable_actor() = actor;
    message.mutable_worker_exited()->mutable_cause()->set_kind(kind);
    Write(message);
  }
  grpc::ClientContext context;
  std::unique_ptr<v1::NodeControl::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AgentMessages, v1::HeadMessages>> stream;
  std::deque<v1::HeadToAgent> unread;
};

TEST_CASE("HeadServer: queues are set and listed, and a job that waits is explained", "[head]") {
  Site site;
  v1::SetQueueRequest set;
  set.mutable_queue()->set_name("research");
  set.mutable_queue()->set_weight(2);
  v1::Queue queue;
  CHECK(site.Call(&v1::Head::Stub::SetQueue, set, &queue).ok());
  site.Restart();
  v1::ListQueuesResponse queues;
  CHECK(site.Call(&v1::Head::Stub::ListQueues, v1::ListQueuesRequest(), &queues).ok());
  REQUIRE(queues.queues_size() == 2);
  CHECK(queues.queues(0).name() == "default");
  CHECK(queues.queues(1).weight() == 2);
  v1::ExplainJobRequest request;
  request.set_job_id(site.Submit());
  v1::Explanation why;
  CHECK(site.Call(&v1::Head::Stub::ExplainJob, request, &why).ok());
  CHECK(why.waits_for() == "no node has joined yet");
  CHECK(why.transitions(0).event() == "submitted");
  request.set_job_id("none");
  CHECK(site.Call(&v1::Head::Stub::ExplainJob, request, &why).code() == absl::StatusCode::kNotFound);
}

TEST_CASE("HeadServer: a job from submit to its end, watched", "[head]") {
  Site site;
  Agent agent(site);
  CHECK(agent.Read().welcome_node().term() == 1);
  std::string id = site.Submit();
  v1::ActorIncarnation controller = agent.Read().start_worker().actor();
  v1::ActorIncarnation rollout = agent.Read().start_worker().actor();
  CHECK(rollout.id().role() == "rollout");

  grpc::ClientContext context;
  SetTimeout(context, kTimeout);
  v1::WatchActorsRequest watch;
  watch.set_job_id(id);
  auto reader = site.stub->WatchActors(&context, watch);
  v1::ActorUpdate update;
  REQUIRE(reader->Read(&update));
  CHECK(update.actors_size() == 2);
  v1::AgentToHead ready;
  *ready.mutable_worker_ready()->mutable_address()->mutable_actor() = rollout;
  ready.mutable_worker_ready()->mutable_address()->set_endpoint("unix:/rollout");
  agent.Write(ready);
  REQUIRE(reader->Read(&update));
  CHECK(update.actors(0).state() == v1::ACTOR_READY);
  CHECK(update.actors(0).address().endpoint() == "unix:/rollout");

  v1::ReportProgressRequest progress;
  *progress.mutable_controller() = controller;
  progress.mutable_progress()->set_step(3);
  v1::ReportProgressResponse progress_response;
  CHECK(site.Call(&v1::Head::Stub::ReportProgress, progress, &progress_response).ok());
  CHECK(site.Get(id).state() == v1::JOB_RUNNING);
  CHECK(site.Get(id).progress().step() == 3);

  v1::FinishJobRequest finish;
  *finish.mutable_controller() = controller;
  finish.set_succeeded(true);
  finish.set_summary_json("{}");
  v1::FinishJobResponse finish_response;
  CHECK(site.Call(&v1::Head::Stub::FinishJob, finish, &finish_response).ok());
  CHECK(agent.Read().has_stop_worker());
  CHECK(agent.Read().has_stop_worker());
  agent.Exited(rollout, v1::ExitCause::STOPPED);
  agent.Exited(controller, v1::ExitCause::EXITED);
  CHECK(agent.Read().has_acknowledge_exit());
  while (reader->Read(&update)) {
  }
  CHECK(reader->Finish().ok());
  CHECK(site.Get(id).state() == v1::JOB_SUCCEEDED);
  CHECK(site.Get(id).summary_json() == "{}");
  site.head->Shutdown();
  std::string events;
  for (int i = 0; i < 200 && events.find("\"ended\"") == std::string::npos; ++i) {
    events = ReadFile(site.folder + "/run/events.jsonl", 1 << 20).value();
    PauseFor(absl::Milliseconds(10));
  }
  CHECK(events.find("\"event\":\"ended\"") != std::string::npos);
}

TEST_CASE("HeadServer: cancel returns when every process is gone, or at its deadline", "[head]") {
  Site site;
  Agent agent(site);
  agent.Read();
  std::string id = site.Submit();
  v1::ActorIncarnation first = agent.Read().start_worker().actor(), second = agent.Read().start_worker().actor();
  v1::CancelJobRequest request;
  request.set_job_id(id);
  v1::Job job;
  {
    grpc::ClientContext context;
    SetTimeout(context, absl::Milliseconds(300));
    CHECK(FromGrpc(site.stub->CancelJob(&context, request, &job)).code() == absl::StatusCode::kDeadlineExceeded);
  }
  agent.Exited(first, v1::ExitCause::STOPPED);
  agent.Exited(second, v1::ExitCause::STOPPED);
  CHECK(site.Call(&v1::Head::Stub::CancelJob, request, &job).ok());
  CHECK(job.state() == v1::JOB_CANCELLED);
}

TEST_CASE("HeadServer: a restarted head knows its jobs, has a higher term and adopts running workers", "[head]") {
  Site site;
  std::string id;
  v1::RegisterNode back;
  {
    Agent agent(site);
    back.set_node_incarnation(agent.Read().welcome_node().node_incarnation());
    id = site.Submit();
    for (int i = 0; i < 2; ++i) *back.add_workers()->mutable_actor() = agent.Read().start_worker().actor();
  }
  site.Restart();
  CHECK(site.head->term() == 2);
  Agent agent(site, back);
  v1::WelcomeNode welcome = agent.Read().welcome_node();
  CHECK(welcome.term() == 2);
  CHECK(welcome.node_incarnation() == back.node_incarnation());
  CHECK(welcome.unknown_workers_size() == 0);
  v1::Job job = site.Get(id);
  REQUIRE(job.actors_size() == 2);
  CHECK(job.actors(0).restarts() == 0);
}

TEST_CASE("HeadServer: unknown jobs name the nearest, wrong tokens are refused, a second head too", "[head]") {
  Site site;
  std::string id = site.Submit();
  v1::GetJobRequest request;
  request.set_job_id("additoin");
  v1::Job job;
  absl::Status status = site.Call(&v1::Head::Stub::GetJob, request, &job);
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(MessageOf(status).find("the nearest is '" + id + "'") != std::string::npos);
  RpcSecurity wrong;
  wrong.token = Token::Generate();
  grpc::ClientContext context;
  SetTimeout(context, kTimeout);
  auto stub = v1::Head::NewStub(MakeChannel("127.0.0.1:" + std::to_string(site.head->port()), wrong));
  CHECK(stub->GetJob(&context, request, &job).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  auto second = HeadServer::Start({.data_dir = site.folder + "/head", .security = site.security});
  CHECK(second.status().code() == absl::StatusCode::kAlreadyExists);
}

TEST_CASE("HeadServer: logs are read and followed to the job's end", "[head]") {
  Site site;
  std::string id = site.Submit();
  std::filesystem::create_directories(site.folder + "/run/logs");
  std::ofstream(site.folder + "/run/logs/rollout-0.log") << "2026-11-30T10:00:00.000001Z O one\n";
  grpc::ClientContext context;
  SetTimeout(context, kTimeout);
  v1::ReadLogsRequest request;
  request.set_job_id(id);
  request.set_replica(-1);
  request.set_follow(true);
  auto reader = site.stub->ReadLogs(&context, request);
  v1::LogLine line;
  REQUIRE(reader->Read(&line));
  CHECK(line.text() == "one");
  std::ofstream(site.folder + "/run/logs/rollout-0.log", std::ios::app) << "2026-11-30T10:00:00.000002Z E two\n";
  REQUIRE(reader->Read(&line));
  CHECK(line.is_stderr());
  v1::CancelJobRequest cancel;
  cancel.set_job_id(id);
  v1::Job job;
  CHECK(site.Call(&v1::Head::Stub::CancelJob, cancel, &job).ok());
  CHECK(!reader->Read(&line));
  CHECK(reader->Finish().ok());
}

}  // namespace
}  // namespace troupe
