// SPDX-License-Identifier: Apache-2.0
// A real worker process against a stand-in for the node agent.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/rpc/server.h"
#include "runtime/worker/testing/caller.h"
#include "runtime/worker/testing/fake_agent.h"

namespace troupe {
namespace {

constexpr char kProgram[] = "runtime/worker/echo_worker";

// The child of this test; its stdout and stderr go to a file.
class Child {
 public:
  Child(const std::vector<std::string>& environment, int token_fd, const std::string& output) {
    std::vector<char*> variables;
    for (const std::string& entry : environment) variables.push_back(const_cast<char*>(entry.c_str()));
    variables.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      int out = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      if (token_fd >= 0) ::dup2(token_fd, 3);
      char* argv[] = {const_cast<char*>(kProgram), nullptr};
      ::execve(kProgram, argv, variables.data());
      ::_exit(127);
    }
  }
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  void Signal(int signal) { ::kill(pid_, signal); }

 private:
  pid_t pid_;
};

struct Fixture {
  std::string folder = MakeTemporaryDirectory("worker-main-test").value();
  std::string output = folder + "/output";
  RpcSecurity security;
  FakeAgent agent;
  std::unique_ptr<RpcServer> server;
  ActorLife self = {{JobId("job"), "echo", 0}, 4};

  Fixture() {
    security.token = Token::Generate();
    RpcServerOptions options;
    options.addresses = {"unix:" + folder + "/agent.sock"};
    options.security = security;
    server = RpcServer::Start(options, {&agent}).value();
    v1::StartWorker& start = *agent.assignment.mutable_start();
    *start.mutable_actor() = self.ToProto();
    start.mutable_role()->set_actor_class("Echo");
    start.mutable_role()->set_args_json("[\"echo: \"]");
  }
  ~Fixture() {
    server = nullptr;
    (void)RemoveTree(folder);
  }
  Child Start() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    REQUIRE(::write(ends[1], security.token.data(), security.token.size()) > 0);
    Child child(
        {"TROUPE_WORKER=" + self.ToString(), "TROUPE_AGENT_SOCKET=" + folder + "/agent.sock", "TROUPE_TOKEN_FD=3"},
        ends[0], output);
    ::close(ends[0]);
    ::close(ends[1]);
    return child;
  }
  std::string Output() { return ReadFile(output, 1 << 20).value_or(""); }
};

TEST_CASE("RunWorker: a process that no agent started says so and exits with 2", "[worker]") {
  Fixture f;
  CHECK(Child({}, -1, f.output).Wait() == 2);
  CHECK(f.Output().find("troupe run") != std::string::npos);
  CHECK(Child({"TROUPE_WORKER=nonsense", "TROUPE_AGENT_SOCKET=/x", "TROUPE_TOKEN_FD=3"}, -1, f.output).Wait() == 2);
}

TEST_CASE("RunWorker: it hosts its actor until SIGTERM, runs OnStop and exits with 0", "[worker]") {
  Fixture f;
  Child child = f.Start();
  REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value(); }));
  WorkerCaller caller(f.security);
  Promise<std::string> answered;
  Future<std::string> answer = answered.TakeFuture();
  OutgoingCall say = {"Echo.Say", Encode(std::tuple<std::string>("hi")), absl::Seconds(20)};
  say.reply = [answered](absl::StatusOr<std::string> bytes) { answered.Set(std::move(bytes)); };
  caller.transport->Call({f.self, f.agent.ready->endpoint()}, std::move(say));
  CHECK(Decode<std::string>(answer.Get().value()).value() == "echo: hi");
  child.Signal(SIGTERM);
  CHECK(child.Wait() == 0);
  CHECK(f.Output().find("stopped: signal 15") != std::string::npos);
}

TEST_CASE("RunWorker: a start that fails is told to the agent before the exit with 3", "[worker]") {
  Fixture f;
  f.agent.assignment.mutable_start()->mutable_role()->set_args_json("[1]");
  CHECK(f.Start().Wait() == 3);
  REQUIRE(f.agent.Await([&] { return !f.agent.start_failed.ok(); }));
  CHECK(std::string(f.agent.start_failed.message()).find("expected bytes, found an integer") != std::string::npos);
}

TEST_CASE("RunWorker: an actor that does not stop within the grace ends the process with 4", "[worker]") {
  Fixture f;
  Child child = f.Start();
  REQUIRE(f.agent.Await([&] { return f.agent.ready.has_value(); }));
  WorkerCaller caller(f.security);
  OutgoingCall hang = {"Echo.Hang", Encode(std::tuple<>()), absl::Seconds(20)};
  hang.reply = [](const absl::StatusOr<std::string>&) {};
  caller.transport->Call({f.self, f.agent.ready->endpoint()}, std::move(hang));
  REQUIRE(Eventually([&] { return f.Output().find("hangs") != std::string::npos; }));
  f.agent.Stop("enough", 100);
  CHECK(child.Wait() == 4);
  CHECK(f.Output().find("did not stop within its grace") != std::string::npos);
}

}  // namespace
}  // namespace troupe
