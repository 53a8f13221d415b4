// SPDX-License-Identifier: Apache-2.0
// A worker's life against a stand-in for the node agent and the head.
#include "runtime/worker/worker_process.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "runtime/actor/actor.h"
#include "runtime/actor/call_error.h"
#include "runtime/actor/ref.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/rpc/channel.h"
#include "runtime/worker/testing/caller.h"
#include "runtime/worker/testing/fake_agent.h"
#include "troupe/v1/head.grpc.pb.h"
#include "troupe/v1/weights.grpc.pb.h"

namespace troupe {
namespace {

// An actor with a service of its own, which knows its directory and notes how it was stopped.
class Greeter : public Actor, public v1::WeightSource::Service {
 public:
  explicit Greeter(int64_t fault) : fault_(fault) {
    if (fault_ == 1) throw std::runtime_error("no model there");
  }
  std::vector<grpc::Service*> Services() override { return {this}; }
  absl::Status OnStart(ActorContext& context) override {
    context_ = &context;
    if (fault_ == 2) return absl::NotFoundError("the data is missing");
    if (fault_ == 3) {
      MutexLock lock(gate_mutex);
      gate_asked = true;
      gate_changed.NotifyAll();
      gate_changed.WaitUntil(lock, MonotonicNow() + absl::Seconds(20), [] { return gate_open; });
      return absl::NotFoundError("the data is gone");
    }
    return absl::OkStatus();
  }
  void OnStop(std::string_view reason) override { stop_reason = std::string(reason); }
  void Quit() { context_->StopSelf("I am done"); }
  void Throw() { throw std::runtime_error("broken inside"); }
  absl::Status QuitWithChild() {
    absl::StatusOr<Ref<Greeter>> child = context_->Spawn<Greeter>({.name = "child"}, 0);
    if (child.ok()) context_->StopSelf("I am done");
    return child.status();
  }
  void Sleep(int64_t ms) { PauseFor(absl::Milliseconds(ms)); }

  std::string Greet(std::string name) { return "hello " + name + " from " + context_->self().ToString(); }
  absl::StatusOr<std::string> GreetPeer(std::string role) {
    auto peer = context_->directory().WaitReady<Greeter>(role, 0, MonotonicNow() + absl::Seconds(20));
    if (!peer.ok()) return peer.status();
    return peer->Call<&Greeter::Greet>("peer").Get();
  }
  grpc::Status GetManifest(grpc::ServerContext*, const v1::GetManifestRequest*, v1::WeightManifest* manifest) override {
    manifest->set_total_bytes(42);
    return grpc::Status::OK;
  }

  inline static std::string stop_reason;
  // Of fault 3.
  inline static Mutex gate_mutex;
  inline static ConditionVariable gate_changed;
  inline static bool gate_asked = false, gate_open = false;

 private:
  int64_t fault_;
  ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Greeter, TROUPE_METHODS(Greet, GreetPeer, Quit, Throw, QuitWithChild, Sleep), TROUPE_INIT(int64_t));

// Tells one update, then stays.
class FakeHead : public v1::Head::Service {
 public:
  grpc::Status WatchActors(grpc::ServerContext* context, const v1::WatchActorsRequest* request,
                           grpc::ServerWriter<v1::ActorUpdate>* writer) override {
    {
      MutexLock lock(mutex);
      if (request->job_id() == "job") writer->Write(update);
    }
    while (!context->IsCancelled()) PauseFor(absl::Milliseconds(5));
    return grpc::Status::OK;
  }
  Mutex mutex;
  v1::ActorUpdate update;
};

struct Fixture {
  std::string folder = MakeTemporaryDirectory("worker-test").value();
  RpcSecurity security;
  FakeAgent agent;
  FakeHead head;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<WorkerProcess> process;
  std::thread thread;
  std::atomic<int> exit_code{-1};

  Fixture() {
    security.token = Token::Generate();
    Serve();
  }
  ~Fixture() {
    if (thread.joinable()) {
      process->Stop("the test ends", absl::Seconds(10));
      thread.join();
    }
    process = nullptr;
    server = nullptr;
    (void)RemoveTree(folder);
  }
  void Serve() {
    RpcServerOptions options;
    options.addresses = {"unix:" + folder + "/agent.sock"};
    options.security = security;
    server = RpcServer::Start(options, {&agent, &head}).value();
  }
  void StartWorker(const std::string& actor_class, const std::string& args, const std::string& role = "greeter",
                   absl::Duration last_word_max = absl::Seconds(30)) {
    ActorLife self = {{JobId("job"), role, 0}, 3};
    agent.assignment.set_host("127.0.0.1");
    v1::StartWorker& start = *agent.assignment.mutable_start();
    *start.mutable_actor() = self.ToProto();
    start.mutable_role()->set_actor_class(actor_class);
    start.mutable_role()->set_args_json(args);
    start.set_hang_timeout_ms(200);
    start.set_head_endpoint("unix:" + folder + "/agent.sock");
    WorkerOptions options;
    options.self = self;
    options.agent_socket = folder + "/agent.sock";
    options.token = security.token;
    options.last_word_max = last_word_max;
    process = std::make_unique<WorkerProcess>(options);
    thread = std::thread([this] { exit_code = process->Run(); });
  }
  int Join() {
    thread.join();
    return exit_code;
  }
};

TEST_CASE("Worker: it starts its actor, serves it, beats, and stops when it is told", "[worker]") {
  Fixture f;
  f.StartWorker("Greeter", "[0]");
  REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value() && f.agent.heartbeats >= 3; }));
  CHECK(f.agent.hellos[0].pid() == ::getpid());

  WorkerCaller caller(f.security);
  for (const std::string& endpoint : {f.agent.ready->endpoint(), f.agent.ready->remote_endpoint()}) {
    Ref<Greeter> greeter({ActorLife{{JobId("job"), "greeter", 0}, 3}, endpoint}, caller.transport);
    CHECK(greeter.Call<&Greeter::Greet>("you").Get().value() == "hello you from job/greeter/0#3");
    auto stub = v1::WeightSource::NewStub(MakeChannel(endpoint, f.security));
    grpc::ClientContext context;
    v1::WeightManifest manifest;
    CHECK(stub->GetManifest(&context, {}, &manifest).ok());
    CHECK(manifest.total_bytes() == 42);
  }
  f.agent.Stop("the job is over");
  CHECK(f.Join() == WorkerProcess::kStopped);
  CHECK(Greeter::stop_reason == "the job is over");
  CHECK_FALSE(FileExists(f.agent.ready->endpoint().substr(5)));
}

TEST_CASE("Worker: a constructor, an OnStart or a class that fails is told with its text", "[worker]") {
  auto failure = [](const std::string& actor_class, const std::string& args) {
    Fixture f;
    f.StartWorker(actor_class, args);
    CHECK(f.Join() == WorkerProcess::kStartFailed);
    CHECK(f.agent.Await([&] { return !f.agent.start_failed.ok(); }));
    return std::string(f.agent.start_failed.message());
  };
  CHECK(failure("Greeter", "[1]").find("no model there") != std::string::npos);
  CHECK(failure("Greeter", "[2]").find("the data is missing") != std::string::npos);
  CHECK(failure("Greeter", "[]").find("expected 1 values") != std::string::npos);
  CHECK(failure("Gretter", "").find("it has: Greeter") != std::string::npos);
}

// A caller of a worker's actor.
struct Caller {
  explicit Caller(Fixture& f) : process(f.security) {
    greeter = Ref<Greeter>({ActorLife{{JobId("job"), "greeter", 0}, 3}, f.agent.ready->endpoint()}, process.transport);
  }
  WorkerCaller process;
  Ref<Greeter> greeter;
};

TEST_CASE("Worker: an actor that ends by itself ends the process, which says why", "[worker]") {
  struct Case {
    std::function<void(Ref<Greeter>&)> act;
    int exit_code;
    std::string text;
  };
  for (const Case& c : {
           Case{[](auto& greeter) { (void)greeter.template Call<&Greeter::Quit>().Get(); }, WorkerProcess::kStopped,
                "I am done"},
           Case{[](auto& greeter) { (void)greeter.template Call<&Greeter::QuitWithChild>().Get(); },
                WorkerProcess::kStopped, "I am done"},
           Case{[](auto& greeter) { (void)greeter.template Call<&Greeter::Throw>().Get(); }, WorkerProcess::kFailed,
                "INTERNAL: the method threw: broken inside"},
       }) {
    Fixture f;
    v1::RoleSpec& role = *f.agent.assignment.mutable_start()->mutable_role();
    role.mutable_restart()->set_on_exception(true);
    f.StartWorker("Greeter", "[0]");
    REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value(); }));
    {
      Caller caller(f);
      c.act(caller.greeter);
    }
    for (int i = 0; i < 10'000 && f.exit_code < 0; ++i) PauseFor(absl::Milliseconds(1));
    REQUIRE(f.exit_code == c.exit_code);
    CHECK(f.agent.Await([&] { return f.agent.ended == c.text; }));
  }
}

TEST_CASE("Worker: without the policy an exception ends nothing; the mailbox has the bound of its role", "[worker]") {
  Fixture f;
  f.agent.assignment.mutable_start()->mutable_role()->set_mailbox_messages_max(2);
  f.StartWorker("Greeter", "[0]");
  REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value(); }));
  Caller caller(f);
  CHECK(caller.greeter.Call<&Greeter::Throw>().Get().code() == absl::StatusCode::kInternal);
  std::vector<Future<void>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(caller.greeter.Call<&Greeter::Sleep>(50));
  int overloaded = 0;
  for (Future<void>& call : calls) overloaded += CallErrorKindOf(call.Get()) == v1::CallError::CALL_OVERLOADED;
  CHECK(overloaded >= 7);
}

TEST_CASE("Worker: a restarted agent hears that it is ready already, and is heeded", "[worker]") {
  Fixture f;
  f.StartWorker("Greeter", "[0]");
  REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value(); }));
  f.server = nullptr;
  f.Serve();
  REQUIRE(f.agent.Await([&] { return f.agent.hellos.size() == 2; }));
  CHECK(f.agent.hellos[1].reconnect());
  CHECK(f.agent.hellos[1].ready());
  CHECK(f.agent.hellos[1].endpoint() == f.agent.ready->endpoint());
  CHECK(f.agent.hellos[1].remote_endpoint() == f.agent.ready->remote_endpoint());
  f.agent.Stop("again");
  CHECK(f.Join() == WorkerProcess::kStopped);
  CHECK(Greeter::stop_reason == "again");
}

TEST_CASE("Worker: one whose actor ends while the agent is away tells the next agent why", "[worker]") {
  Fixture f;
  f.agent.assignment.mutable_start()->mutable_role()->mutable_restart()->set_on_exception(true);
  f.StartWorker("Greeter", "[0]");
  REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value(); }));
  {
    Caller caller(f);
    f.server = nullptr;
    (void)caller.greeter.Call<&Greeter::Throw>().Get();
  }
  // Its server goes after the word was given, and before the farewell.
  REQUIRE(Eventually([&] { return !FileExists(f.agent.ready->endpoint().substr(5)); }));
  f.Serve();
  CHECK(f.agent.Await([&] { return f.agent.ended == "INTERNAL: the method threw: broken inside"; }));
  CHECK(f.Join() == WorkerProcess::kFailed);
}

TEST_CASE("Worker: one whose actor does not start while the agent is away tells the next agent why", "[worker]") {
  Fixture f;
  f.StartWorker("Greeter", "[3]");
  {
    MutexLock lock(Greeter::gate_mutex);
    REQUIRE(
        Greeter::gate_changed.WaitUntil(lock, MonotonicNow() + absl::Seconds(20), [] { return Greeter::gate_asked; }));
  }
  f.server = nullptr;
  {
    MutexLock lock(Greeter::gate_mutex);
    Greeter::gate_open = true;
    Greeter::gate_changed.NotifyAll();
  }
  REQUIRE(Eventually([&] { return ListDirectory(f.folder)->empty(); }));  // Its server has ended.
  f.Serve();
  CHECK(f.agent.Await(
      [&] { return std::string(f.agent.start_failed.message()).find("the data is gone") != std::string::npos; }));
  CHECK(f.Join() == WorkerProcess::kStartFailed);
}

TEST_CASE("Worker: one whose agent does not come back ends all the same", "[worker]") {
  Fixture f;
  f.StartWorker("Greeter", "[0]", "greeter", absl::Milliseconds(50));
  REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value(); }));
  {
    Caller caller(f);
    f.server = nullptr;
    (void)caller.greeter.Call<&Greeter::Quit>().Get();
  }
  CHECK(f.Join() == WorkerProcess::kStopped);
}

TEST_CASE("Worker: one that the agent does not know ends", "[worker]") {
  Fixture f;
  f.agent.refuse = true;
  f.StartWorker("Greeter", "[0]");
  CHECK(f.Join() == WorkerProcess::kUnknownWorker);
}

TEST_CASE("Worker: its actor finds others through the head's news", "[worker]") {
  Fixture f;
  f.StartWorker("Greeter", "[0]");
  REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value(); }));
  Fixture other;
  {
    MutexLock lock(other.head.mutex);
    v1::Actor& actor = *other.head.update.add_actors();
    actor.set_state(v1::ACTOR_READY);
    *actor.mutable_address()->mutable_actor() = ActorLife{{JobId("job"), "greeter", 0}, 3}.ToProto();
    actor.mutable_address()->set_endpoint(f.agent.ready->endpoint());
  }
  other.security = f.security;
  other.server = nullptr;
  other.Serve();
  other.StartWorker("Greeter", "[0]", "asker");
  REQUIRE(other.agent.Await([&] { return other.agent.ready.has_value(); }));
  WorkerCaller caller(f.security);
  Ref<Greeter> asker({ActorLife{{JobId("job"), "asker", 0}, 3}, other.agent.ready->endpoint()}, caller.transport);
  CHECK(asker.Call<&Greeter::GreetPeer>("greeter").Get().value() == "hello peer from job/greeter/0#3");
}

}  // namespace
}  // namespace troupe
