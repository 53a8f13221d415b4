// SPDX-License-Identifier: Apache-2.0
// Calls between two processes' transports over real gRPC streams on Unix sockets, in one test process.
#include "runtime/transport/transport.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "runtime/actor/actor.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/ref.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/server.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/actor.grpc.pb.h"

namespace troupe {
namespace {

class Echo : public Actor {
 public:
  std::string Say(std::string text) { return text; }
  // The numbers must come in order.
  absl::Status Next(int64_t n) {
    if (n != next_) return absl::FailedPreconditionError("expected " + std::to_string(next_));
    ++next_;
    return absl::OkStatus();
  }
  std::string Big(int64_t bytes) {
    ++made;
    return std::string(static_cast<size_t>(bytes), 'x');
  }
  Future<void> Never() {
    Promise<void> promise;
    waiting_.push_back(promise);
    return promise.TakeFuture();
  }
  void Sleep(int64_t ms) { PauseFor(absl::Milliseconds(ms)); }

  inline static std::atomic<int> made{0};  // By Big.

 private:
  int64_t next_ = 0;
  std::vector<Promise<void>> waiting_;
};
TROUPE_ACTOR(Echo, TROUPE_METHODS(Say, Next, Big, Never, Sleep), TROUPE_INIT());

const std::string& TestToken() {
  static const std::string token = Token::Generate();
  return token;
}

// One process: a host with an Echo, its transport, its server.
struct Process {
  explicit Process(uint64_t incarnation, const std::string& token = TestToken(), const std::string& path = "",
                   const FrameLimits& frames = {}, absl::Duration session_timeout = absl::Seconds(10)) {
    RpcSecurity security;
    security.token = token;
    setting.self = {{JobId("job"), "echo", 0}, incarnation};
    setting.endpoint = "unix:" + (path.empty() ? "/tmp/transport-test-" + RandomHex(6) + ".sock" : path);
    TransportOptions options;
    options.process_name = setting.self.ToString();
    options.security = security;
    options.payload_bytes_max = 1 << 20;
    options.frames = frames;
    options.session_timeout = session_timeout;
    transport = Transport::Create(options, host);
    context = std::make_unique<ActorContext>(setting, transport, nullptr);
    const ActorClass* actor_class = ActorRegistry::Global().Find("Echo").value();
    cell = std::make_shared<ActorCell>(*actor_class, std::make_unique<Echo>(), *context);
    REQUIRE(cell->Start().ok());
    host.Add(cell);
    RpcServerOptions server_options;
    server_options.addresses = {setting.endpoint};
    server_options.security = security;
    server = RpcServer::Start(server_options, {transport->service()}).value();
  }
  ~Process() {
    cell->Stop("the test ends", MonotonicNow() + absl::Seconds(10));
    transport->Shutdown();
    server = nullptr;
  }
  ActorAddress address() const { return {setting.self, setting.endpoint}; }

  ActorSetting setting;
  ActorHost host;
  std::shared_ptr<Transport> transport;
  std::unique_ptr<ActorContext> context;
  std::shared_ptr<ActorCell> cell;
  std::unique_ptr<RpcServer> server;
};

Ref<Echo> RefFrom(Process& caller, const ActorAddress& address) { return Ref<Echo>(address, caller.transport); }

TEST_CASE("Transport: calls within a process and between two return the same", "[transport]") {
  Process a(1), b(2);
  for (const ActorAddress& address : {a.address(), b.address()}) {
    Ref<Echo> echo = RefFrom(a, address);
    CHECK(echo.Call<&Echo::Say>("hello").Get().value() == "hello");
    absl::Status wrong = echo.Call<&Echo::Next>(5).Get();
    CHECK(wrong == absl::FailedPreconditionError("expected 0"));
    CHECK(CallErrorKindOf(wrong) == v1::CallError::CALL_HANDLER);
  }
  CHECK(a.transport->open_calls() == 0);
}

TEST_CASE("Transport: a thousand calls in flight arrive in the order of their sender", "[transport]") {
  Process a(1), b(2);
  Ref<Echo> echo = RefFrom(a, b.address());
  std::vector<Future<void>> futures;
  for (int64_t n = 0; n < 1000; ++n) futures.push_back(echo.Call<&Echo::Next>(n));
  for (Future<void>& future : futures) CHECK(future.Get().ok());
}

TEST_CASE("Transport: many threads call, each gets its own answer", "[transport]") {
  Process a(1), b(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Ref<Echo> echo = RefFrom(thread % 2 == 0 ? a : b, thread < 2 ? a.address() : b.address());
      for (int i = 0; i < 200; ++i) {
        std::string text = std::to_string(thread) + ":" + std::to_string(i);
        wrong += echo.Call<&Echo::Say>(text).Get().value_or("") != text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("Transport: payloads over the limit are refused both ways, with sizes", "[transport]") {
  Process a(1), b(2);
  for (const ActorAddress& address : {a.address(), b.address()}) {
    absl::Status argument = RefFrom(a, address).Call<&Echo::Say>(std::string(2 << 20, 'x')).Get().status();
    CHECK(argument.code() == absl::StatusCode::kResourceExhausted);
    CHECK(CallErrorKindOf(argument) == v1::CallError::CALL_TOO_LARGE);
    CHECK(std::string(argument.message()).find("1048576") != std::string::npos);
  }
  Ref<Echo> echo = RefFrom(a, b.address());
  CHECK(echo.Call<&Echo::Big>(1'000'000).Get().value().size() == 1'000'000);
  absl::Status result = echo.Call<&Echo::Big>(2 << 20).Get().status();
  CHECK(result.code() == absl::StatusCode::kResourceExhausted);
  CHECK(CallErrorKindOf(result) == v1::CallError::CALL_TOO_LARGE);
  CHECK(echo.Call<&Echo::Say>("still there").Get().ok());
}

TEST_CASE("Transport: a call ends at its deadline although the actor never answers", "[transport]") {
  Process a(1), b(2);
  for (const ActorAddress& address : {a.address(), b.address()}) {
    Monotonic start = MonotonicNow();
    Ref<Echo> hasty = RefFrom(a, address).WithTimeout(absl::Milliseconds(50));
    absl::Status status = hasty.Call<&Echo::Never>().Get();
    CHECK(CallErrorKindOf(status) == v1::CallError::CALL_DEADLINE);
    CHECK(MonotonicNow() - start >= absl::Milliseconds(50));
    CHECK(MonotonicNow() - start < absl::Seconds(5));
    // What waits behind a long message past its deadline is not begun.
    Future<void> sleep = RefFrom(a, address).Call<&Echo::Sleep>(200);
    CHECK(CallErrorKindOf(hasty.Call<&Echo::Next>(0).Get()) == v1::CallError::CALL_DEADLINE);
    CHECK(sleep.Get().ok());
    CHECK(RefFrom(a, address).Call<&Echo::Next>(0).Get().ok());
  }
}

TEST_CASE("Transport: a ref of an older life is refused with the life that is", "[transport]") {
  Process a(1), b(7);
  ActorAddress old = b.address();
  old.life.incarnation = 3;
  absl::Status status = RefFrom(a, old).Call<&Echo::Say>("x").Get().status();
  CHECK(CallErrorKindOf(status) == v1::CallError::CALL_STALE_EPOCH);
  CHECK(CallErrorOf(status).current_incarnation() == 7);
}

TEST_CASE("Transport: a death that is known ends open calls at once and refuses later ones", "[transport]") {
  Process a(1), b(2);
  Ref<Echo> echo = RefFrom(a, b.address());
  Future<void> open = echo.Call<&Echo::Never>();
  v1::ExitCause cause;
  cause.set_signal(9);
  cause.set_text("killed by signal 9");
  a.transport->MarkDead(b.setting.self, cause);
  for (const absl::Status& status : {open.Get(), echo.Call<&Echo::Say>("x").Get().status()}) {
    CHECK(CallErrorKindOf(status) == v1::CallError::CALL_DIED);
    CHECK(CallErrorOf(status).cause().signal() == 9);
    CHECK(std::string(status.message()).find("killed by signal 9") != std::string::npos);
  }
  ActorAddress successor = b.address();
  successor.life.incarnation = 3;
  CHECK(CallErrorKindOf(RefFrom(a, successor).Call<&Echo::Say>("x").Get().status()) == v1::CallError::CALL_UNAVAILABLE);
}

TEST_CASE("Transport: a process that goes away ends its calls, and its successor is reached anew", "[transport]") {
  Process a(1);
  auto b = std::make_unique<Process>(2);
  std::string path = b->setting.endpoint.substr(5);
  Future<void> open = RefFrom(a, b->address()).Call<&Echo::Never>();
  CHECK(RefFrom(a, b->address()).Call<&Echo::Say>("x").Get().ok());
  ActorAddress gone = b->address();
  b->transport->Shutdown();
  absl::Status status = open.Get();
  CHECK(CallErrorKindOf(status) == v1::CallError::CALL_UNAVAILABLE);
  CHECK(std::string(status.message()).find("may have run") != std::string::npos);
  b = nullptr;
  absl::Status unreachable = RefFrom(a, gone).Call<&Echo::Say>("x").Get().status();
  CHECK(CallErrorKindOf(unreachable) == v1::CallError::CALL_UNAVAILABLE);
  CHECK(std::string(unreachable.message()).find("did not run") != std::string::npos);
  Process successor(3, TestToken(), path);
  // gRPC dials a path that was just found empty again only after its back-off.
  const Monotonic end = MonotonicNow() + absl::Seconds(5);
  absl::Status reached;
  do {
    reached = RefFrom(a, successor.address()).Call<&Echo::Say>("x").Get().status();
    if (!reached.ok()) PauseFor(absl::Milliseconds(10));
  } while (!reached.ok() && MonotonicNow() < end);
  CHECK(reached.ok());
  CHECK(CallErrorKindOf(RefFrom(a, gone).Call<&Echo::Say>("x").Get().status()) == v1::CallError::CALL_STALE_EPOCH);
}

TEST_CASE("Transport: a wrong token reaches no actor", "[transport]") {
  Process a(1), b(2, Token::Generate());
  absl::Status status = RefFrom(a, b.address()).Call<&Echo::Say>("x").Get().status();
  CHECK(CallErrorKindOf(status) == v1::CallError::CALL_UNAVAILABLE);
  CHECK(std::string(status.message()).find("UNAUTHENTICATED") != std::string::npos);
}

TEST_CASE("Transport: its own shutdown ends the calls that it made", "[transport]") {
  Process a(1), b(2);
  Future<void> open = RefFrom(a, b.address()).Call<&Echo::Never>();
  a.transport->Shutdown();
  CHECK(CallErrorKindOf(open.Get()) == v1::CallError::CALL_UNAVAILABLE);
  CHECK(CallErrorKindOf(RefFrom(a, b.address()).Call<&Echo::Say>("x").Get().status()) ==
        v1::CallError::CALL_UNAVAILABLE);
}

// Sends frames by hand and returns how the stream ended.
absl::Status SendFrames(const Process& to, const std::vector<v1::Frame>& frames) {
  RpcSecurity security;
  security.token = TestToken();
  auto stub = v1::ActorTransport::NewStub(MakeChannel(to.setting.endpoint, security));
  grpc::ClientContext context;
  SetTimeout(context, absl::Seconds(20));
  auto stream = stub->Connect(&context);
  for (const v1::Frame& frame : frames) stream->Write(frame);
  v1::Frame reply;
  while (stream->Read(&reply)) {
  }
  return FromGrpc(stream->Finish());
}

TEST_CASE("Transport: frames that cannot be end the stream with the reason", "[transport]") {
  Process b(2);
  FrameSession session;
  const v1::Frame hello = session.Hello("test", 7, 1);
  CHECK(SendFrames(b, {v1::Frame()}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(SendFrames(b, {hello, hello}).code() == absl::StatusCode::kInvalidArgument);
  Envelope reply;
  reply.kind = Envelope::Kind::kReply;
  reply.call_id = 1;
  session.PushAlways(std::move(reply));
  CHECK(SendFrames(b, {hello, *session.Next()}).code() == absl::StatusCode::kInvalidArgument);
  v1::Frame old = hello;
  old.mutable_hello()->set_protocol_version(99);
  CHECK(SendFrames(b, {old}).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(b.transport->counters().refused_frames == 3);
}

TEST_CASE("Transport: a session that is not known here, or an older stream of one that is, is refused and counted",
          "[transport]") {
  Process b(2);
  FrameSession session;
  absl::Status unknown = SendFrames(b, {session.Hello("test", 7, 2)});
  CHECK(unknown.code() == absl::StatusCode::kAborted);
  CHECK(std::string(unknown.message()).find("not known") != std::string::npos);
  v1::Frame last;
  last.set_ends_session(true);
  RpcSecurity security;
  security.token = TestToken();
  auto stub = v1::ActorTransport::NewStub(MakeChannel(b.setting.endpoint, security));
  grpc::ClientContext context;
  auto stream = stub->Connect(&context);
  REQUIRE(stream->Write(session.Hello("test", 8, 1)));
  v1::Frame reply;
  REQUIRE(stream->Read(&reply));
  CHECK(reply.hello().session() == 8);
  CHECK(SendFrames(b, {session.Hello("test", 8, 1)}).code() == absl::StatusCode::kAborted);
  CHECK(b.transport->counters().refused_sessions == 2);
  REQUIRE(stream->Write(last));
  CHECK_FALSE(stream->Read(&reply));
  CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
  CHECK(SendFrames(b, {session.Hello("test", 8, 2)}).code() == absl::StatusCode::kAborted);  // It has ended.
}

// A caller by hand, which reads and acknowledges what it likes. Calls Echo.Big.
struct Caller {
  explicit Caller(const Process& of) : to(of) {
    RpcSecurity security;
    security.token = TestToken();
    stub = v1::ActorTransport::NewStub(MakeChannel(to.setting.endpoint, security));
    stream = stub->Connect(&context);
    REQUIRE(stream->Write(session.Hello("test", 7, 1)));
    v1::Frame hello;
    REQUIRE(stream->Read(&hello));
  }
  bool Call(int64_t bytes) {
    Envelope call;
    call.kind = Envelope::Kind::kCall;
    call.route = std::make_shared<const CallRoute>(CallRoute{to.setting.self, "Echo.Big"});
    call.bytes = Encode(std::tuple<int64_t>(bytes));
    call.timeout = absl::Minutes(1);
    call.call_id = static_cast<uint64_t>(++calls);
    session.PushAlways(std::move(call));
    return stream->Write(*session.Next());
  }
  // So many that the last one is not taken any more.
  void CallUntilNoneIsTaken(int64_t bytes) {
    for (int before = Echo::made, taken = before; taken == Echo::made; ++taken) {
      REQUIRE(Call(bytes));
      if (!Eventually([&] { return Echo::made == taken + 1; }, absl::Milliseconds(500))) return;
      REQUIRE(taken - before < 200);
    }
  }

  const Process& to;
  FrameSession session;
  int calls = 0;
  std::unique_ptr<v1::ActorTransport::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::Frame, v1::Frame>> stream;
};

TEST_CASE("Transport: a caller that dies while no more of its calls are taken is noticed, and its session ends",
          "[transport]") {
  FrameLimits limits;
  limits.queue_bytes_max = 256 << 10;
  Process b(2, TestToken(), "", limits, absl::Milliseconds(100));
  Caller caller(b);
  caller.CallUntilNoneIsTaken(1'000'000);
  REQUIRE(b.transport->Connections().size() == 1);
  caller.context.TryCancel();
  CHECK(Eventually([&] { return b.transport->Connections().empty(); }));
  v1::Frame reply;
  while (caller.stream->Read(&reply)) continue;
  CHECK_FALSE(caller.stream->Finish().ok());
}

TEST_CASE("Transport: a caller that acknowledges nothing is answered so far, and its session ends when it calls on",
          "[transport]") {
  FrameLimits limits;
  limits.queue_bytes_max = 256 << 10;
  limits.kept_bytes_max = 128 << 10;
  limits.held_bytes_max = 64 << 10;
  Process b(2, TestToken(), "", limits);
  Caller caller(b);
  std::atomic<uint64_t> last{0};
  std::thread reads([&] {
    v1::Frame reply;
    while (caller.stream->Read(&reply)) last = reply.sequence();
  });
  caller.CallUntilNoneIsTaken(60'000);
  CHECK(caller.calls < 12);  // Those that are kept, those that wait, and one that is taken beyond.
  const int before = Echo::made;
  v1::Frame acknowledgement;
  acknowledgement.set_acknowledges(last);
  REQUIRE(caller.stream->Write(acknowledgement));
  CHECK(Eventually([&] { return Echo::made > before; }));
  caller.CallUntilNoneIsTaken(60'000);
  int more = 0;
  while (more < 10'000 && caller.Call(1)) ++more;
  CHECK(more < 10'000);
  reads.join();
  absl::Status end = FromGrpc(caller.stream->Finish());
  CHECK(end.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(end.message()).find("does not take the replies") != std::string::npos);
  CHECK(b.transport->Connections().empty());
}

}  // namespace
}  // namespace troupe
