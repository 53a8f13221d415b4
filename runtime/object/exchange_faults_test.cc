// SPDX-License-Identifier: Apache-2.0
// An exchange whose peers do what they should not: a home that damages, cuts, loses and stops; requests that cannot be.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/object/chunk_wire.h"
#include "runtime/object/exchange_service.h"
#include "runtime/object/exchange_wire.h"
#include "runtime/object/testing/object_node.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/server.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/object_exchange.grpc.pb.h"

namespace troupe {
namespace {

class FakeHome final : public v1::ObjectExchange::Service {
 public:
  explicit FakeHome(size_t size) : bytes(Pattern(size, 8)) { Start("127.0.0.1:0"); }
  void Start(const std::string& address) {
    server_ = RpcServer::Start({.addresses = {address}, .security = kSecurity}, {this}).value();
    if (endpoint.empty()) endpoint = "127.0.0.1:" + std::to_string(server_->ports()[0]);
  }
  void Stop() { server_ = nullptr; }

  ObjectWire Wire() const {
    ObjectWire wire;
    wire.id = {12345, 1};
    wire.bytes = wire.place.bytes = static_cast<int64_t>(bytes.size());
    wire.owner = "nobody";
    wire.node_id = "fake";
    wire.endpoint = endpoint;
    return wire;
  }

  grpc::Status Hold(grpc::ServerContext*, const v1::HoldForNodeRequest*, v1::HoldForNodeResponse* response) override {
    response->set_known(true);
    return grpc::Status::OK;
  }
  grpc::Status Plan(grpc::ServerContext*, const v1::PlanPullRequest* request, v1::PlanPullResponse* response) override {
    MutexLock lock(mutex);
    if (!refusal.ok()) return ToGrpc(refusal);
    for (int64_t chunk : request->arrived()) had.insert(chunk);
    response->set_chunk_bytes(kChunkBytes);
    std::set<int64_t> busy(request->fetching().begin(), request->fetching().end());
    int wanted = request->wanted();
    for (int64_t chunk = 0; chunk < ChunksOf(static_cast<int64_t>(bytes.size())) && wanted > 0; ++chunk) {
      if (had.contains(chunk) || busy.contains(chunk)) continue;
      --wanted;
      v1::ChunkSource& source = *response->add_sources();
      source.set_chunk(chunk);
      source.mutable_source()->set_node_id("fake");
      source.mutable_source()->set_endpoint(endpoint);
      source.set_crc32c(ChunkSum(ChunkOf(std::span<const std::byte>(bytes), chunk)));
    }
    return grpc::Status::OK;
  }
  grpc::Status GetChunk(grpc::ServerContext*, const v1::GetChunkRequest* request, v1::ObjectChunk* response) override {
    MutexLock lock(mutex);
    int time = ++sent[request->chunk()];
    std::span<const std::byte> chunk = ChunkOf(std::span<const std::byte>(bytes), request->chunk());
    std::string data(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    if (spoil) spoil(request->chunk(), time, data);
    response->set_crc32c(ChunkSum(std::as_bytes(std::span(data.data(), data.size()))));
    response->set_data(std::move(data));
    return grpc::Status::OK;
  }

  const std::vector<std::byte> bytes;
  std::string endpoint;
  Mutex mutex;
  absl::Status refusal;
  std::set<int64_t> had;
  std::map<int64_t, int> sent;
  std::function<void(int64_t chunk, int time, std::string& data)> spoil;

 private:
  std::unique_ptr<RpcServer> server_;
};

TEST_CASE("Exchange: chunks that are damaged, cut, or not those of the home are refused and fetched again",
          "[object]") {
  FakeHome home(5'500'000);
  home.spoil = [](int64_t chunk, int time, std::string& data) {
    if (time == 1) data[data.size() / 2] ^= 1;  // With a checksum that fits.
    if (time == 2 && chunk % 2 == 0) data.pop_back();
    if (time == 2 && chunk % 2 == 1) data += "more";
  };
  ObjectNode node("node");
  ObjectStore& b = node.Add("b");
  CHECK(Equal(b.Get(b.Adopt(home.Wire()), Soon()), home.bytes));
  CHECK(node.exchange->figures().refused_chunks == 2 * 6);
  CHECK(node.exchange->figures().fetched_bytes == 5'500'000);
}

TEST_CASE("Exchange: a home that never sends it right is an error, and nothing of it is left", "[object]") {
  FakeHome home(2'000'000);
  home.spoil = [](int64_t, int, std::string& data) { data[0] ^= 1; };
  ObjectNode node("node");
  ObjectStore& b = node.Add("b");
  ObjectHandle handle = b.Adopt(home.Wire());
  absl::Status status = b.Get(handle, MonotonicNow() + absl::Seconds(2)).status();
  CHECK(status.code() == absl::StatusCode::kDeadlineExceeded);
  handle = nullptr;
  CHECK(Eventually([&] { return node.broker->held_objects() == 0 && node.exchange->figures().fetching == 0; }));
}

TEST_CASE("Exchange: after a broken connection a pull goes on where it was, also for a get that had given up",
          "[object]") {
  FakeHome home(40 << 20);
  std::atomic<bool> stop{false};
  home.spoil = [&](int64_t, int, std::string&) {
    if (home.sent.size() == 20) stop = true;
    if (stop) PauseFor(absl::Milliseconds(5));
  };
  ObjectNode node("node");
  ObjectStore& b = node.Add("b");
  ObjectHandle handle = b.Adopt(home.Wire());
  std::thread breaker([&] {
    while (!stop) PauseFor(absl::Milliseconds(1));
    home.Stop();
  });
  absl::Status late = b.Get(handle, MonotonicNow() + absl::Milliseconds(1500)).status();
  breaker.join();
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  stop = false;
  home.spoil = nullptr;
  home.Start(home.endpoint);
  CHECK(Equal(b.Get(handle, Soon()), home.bytes));
  int again = 0;
  for (const auto& [chunk, times] : home.sent) again += times - 1;
  CHECK(again <= PullState::kWindow);  // What was on its way.
  CHECK(node.exchange->figures().fetched_bytes == 40 << 20);
}

TEST_CASE("Exchange: an object that its home loses while it is fetched is an error that says how far it came",
          "[object]") {
  FakeHome home(40 << 20);
  home.spoil = [&](int64_t, int, std::string&) {
    if (home.sent.size() == 20) home.refusal = absl::NotFoundError("its owner w has ended (killed by signal 9)");
  };
  ObjectNode node("node");
  ObjectStore& b = node.Add("b");
  absl::Status lost = b.Get(b.Adopt(home.Wire()), Soon()).status();
  INFO(lost);
  CHECK(lost.code() == absl::StatusCode::kNotFound);
  CHECK(std::string(lost.message()).find("of 40 chunks came from") != std::string::npos);
  CHECK(std::string(lost.message()).find("killed by signal 9") != std::string::npos);
  CHECK(Eventually([&] { return node.broker->held_objects() == 0; }));
}

// ---- What others may ask ----

TEST_CASE("Exchange: of a session that a home does not know nothing is taken, and it says so", "[object]") {
  ObjectNode node("node");
  ObjectStore& a = node.Add("a");
  ObjectHandle mine = a.Put(Pattern(100'000, 1)).value();
  (void)a.Describe(mine, 0, true);
  auto stub = v1::ObjectExchange::NewStub(MakeChannel(node.exchange->endpoint(), kSecurity));
  v1::HoldForNodeRequest request;
  request.set_session(1);
  request.set_node_id("other");
  *request.add_add()->mutable_name() = mine->id().ToProto();
  for (bool all : {false, true, false}) {
    bool known_before = node.exchange->figures().held == 1;
    request.set_all(all);
    grpc::ClientContext context;
    v1::HoldForNodeResponse response;
    REQUIRE(stub->Hold(&context, request, &response).ok());
    CHECK(response.known() == (all || known_before));
    CHECK(node.exchange->figures().held == (all || known_before ? 1 : 0));
  }
}

TEST_CASE("Exchange: an object of a size that cannot be is not fetched", "[object]") {
  FakeHome home(1000);
  ObjectNode node("node");
  ObjectStore& b = node.Add("b");
  for (int64_t bytes : {int64_t{-1}, INT64_MAX}) {
    ObjectWire wire = home.Wire();
    wire.bytes = wire.place.bytes = bytes;
    wire.id.sequence = bytes < 0 ? 2 : 3;
    absl::Status status = b.Get(b.Adopt(wire), Soon()).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(status.message()).find("has a size that cannot be") != std::string::npos);
  }
}

TEST_CASE("Exchange: a node sends so many chunks at a time, of those that it has", "[object]") {
  const std::vector<std::byte> bytes(3 * kChunkBytes);
  const ObjectId id{1, 1};
  ExchangeService service("node");
  auto object = std::make_shared<OfferedObject>(bytes, nullptr, false);
  service.Offer(id, object);
  auto send = [&](int64_t chunk, grpc::ByteBuffer& answer) {
    return service.SendChunk(EncodeGetChunk({id, chunk}), answer).code();
  };
  grpc::ByteBuffer answer;
  CHECK(send(1, answer) == absl::StatusCode::kNotFound);
  object->Offer(1);
  for (int64_t chunk : {int64_t{0}, int64_t{2}, int64_t{3}, int64_t{-1}, INT64_MAX}) {
    CHECK(send(chunk, answer) == absl::StatusCode::kNotFound);
  }
  std::vector<grpc::ByteBuffer> answers(ExchangeService::kSendingMax);
  for (grpc::ByteBuffer& one : answers) CHECK(send(1, one) == absl::StatusCode::kOk);
  CHECK(send(1, answer) == absl::StatusCode::kResourceExhausted);
  CHECK(send(1, answer) == absl::StatusCode::kResourceExhausted);
  answers[7].Clear();
  CHECK(send(1, answer) == absl::StatusCode::kOk);
  service.Withdraw(id, object.get());
  CHECK(send(1, answer) == absl::StatusCode::kNotFound);
}

TEST_CASE("Exchange: requests that cannot be are refused; without the token all are", "[object]") {
  ObjectNode node("node");
  auto stub = v1::ObjectExchange::NewStub(MakeChannel(node.exchange->endpoint(), kSecurity));
  auto hold = [&](const v1::HoldForNodeRequest& request) {
    grpc::ClientContext context;
    v1::HoldForNodeResponse response;
    return FromGrpc(stub->Hold(&context, request, &response)).code();
  };
  auto plan = [&](const v1::PlanPullRequest& request) {
    grpc::ClientContext context;
    v1::PlanPullResponse response;
    return FromGrpc(stub->Plan(&context, request, &response)).code();
  };
  v1::HoldForNodeRequest held;
  held.set_session(1);
  held.set_node_id("other");
  held.set_all(true);
  CHECK(hold(held) == absl::StatusCode::kOk);
  using Spoil = std::function<void(v1::HoldForNodeRequest&)>;
  for (const Spoil& spoil :
       {Spoil([](auto& r) { r.set_session(0); }), Spoil([](auto& r) { r.set_node_id(""); }),
        Spoil([](auto& r) { r.set_node_id("node"); }), Spoil([](auto& r) { r.add_add(); }), Spoil([](auto& r) {
          for (int i = 0; i <= ExchangeService::kNamesMax; ++i) r.add_drop();
        }),
        Spoil([](auto& r) {
          for (int i = 0; i <= ExchangeService::kNamesMax; ++i) {
            r.add_add()->mutable_name()->set_process(1);
          }
        })}) {
    v1::HoldForNodeRequest bad = held;
    spoil(bad);
    CHECK(hold(bad) == absl::StatusCode::kInvalidArgument);
  }
  v1::PlanPullRequest planned;
  CHECK(plan(planned) == absl::StatusCode::kInvalidArgument);
  planned.mutable_name()->set_process(1);
  planned.mutable_name()->set_sequence(1);
  planned.set_node_id("other");
  CHECK(plan(planned) == absl::StatusCode::kNotFound);
  planned.set_size_bytes(INT64_MAX);
  CHECK(plan(planned) == absl::StatusCode::kInvalidArgument);
  planned.set_size_bytes(-1);
  CHECK(plan(planned) == absl::StatusCode::kInvalidArgument);
  planned.set_size_bytes(1);
  planned.set_endpoint(std::string(1000, 'x'));
  CHECK(plan(planned) == absl::StatusCode::kInvalidArgument);

  // A size that is not the object's, and chunks that it does not have.
  ObjectStore& a = node.Add("a");
  ObjectHandle mine = a.Put(Pattern(3'000'000, 1)).value();
  (void)a.Describe(mine, 0, true);
  *planned.mutable_name() = mine->id().ToProto();
  planned.set_endpoint("");
  planned.set_sequence(1);
  planned.set_size_bytes(3'000'001);
  CHECK(plan(planned) == absl::StatusCode::kDataLoss);
  planned.set_size_bytes(3'000'000);
  planned.add_arrived(3);
  CHECK(plan(planned) == absl::StatusCode::kInvalidArgument);
  planned.set_arrived(0, 2);
  CHECK(plan(planned) == absl::StatusCode::kOk);
  planned.set_sequence(2);
  planned.set_size_bytes(3'000'001);
  CHECK(plan(planned) == absl::StatusCode::kInvalidArgument);
  for (int64_t chunk : {int64_t{-1}, int64_t{3}, INT64_MAX, INT64_MIN}) {
    grpc::ClientContext context;
    v1::GetChunkRequest get;
    *get.mutable_name() = mine->id().ToProto();
    get.set_chunk(chunk);
    v1::ObjectChunk response;
    CHECK(FromGrpc(stub->GetChunk(&context, get, &response)).code() == absl::StatusCode::kNotFound);
  }

  auto stranger = v1::ObjectExchange::NewStub(MakeChannel(node.exchange->endpoint(), {}));
  grpc::ClientContext contexts[3];
  v1::HoldForNodeResponse hold_response;
  v1::PlanPullResponse plan_response;
  v1::ObjectChunk chunk;
  CHECK(stranger->Hold(&contexts[0], held, &hold_response).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(stranger->Plan(&contexts[1], planned, &plan_response).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(stranger->GetChunk(&contexts[2], {}, &chunk).error_code() == grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace troupe
