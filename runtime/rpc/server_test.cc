// SPDX-License-Identifier: Apache-2.0
#include "runtime/rpc/server.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "runtime/base/secret.h"
#include "runtime/env/file.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/weights.grpc.pb.h"

namespace troupe {
namespace {

// Counts the calls that reach a handler; `Pull` streams two buckets.
class TestService final : public v1::WeightSource::Service {
 public:
  grpc::Status GetManifest(grpc::ServerContext* context, const v1::GetManifestRequest* request,
                           v1::WeightManifest* response) override {
    ++calls;
    saw_token = saw_token || context->client_metadata().count("authorization") > 0;
    *response->mutable_version() = request->version();
    response->set_object_id(std::string(static_cast<size_t>(request->version().step()), 'x'));
    return grpc::Status::OK;
  }
  grpc::Status Pull(grpc::ServerContext*, const v1::PullWeightsRequest*,
                    grpc::ServerWriter<v1::WeightBucket>* writer) override {
    ++calls;
    writer->Write({});
    writer->Write({});
    return grpc::Status::OK;
  }
  std::atomic<int> calls{0};
  std::atomic<bool> saw_token{false};
};

RpcSecurity WithToken(const std::string& token) {
  RpcSecurity security;
  security.token = token;
  return security;
}

std::string PemFile(const std::string& name) { return "runtime/rpc/testdata/" + name; }

absl::Status CallUnary(const std::string& target, const RpcSecurity& security, int64_t reply_bytes = 1) {
  auto stub = v1::WeightSource::NewStub(MakeChannel(target, security));
  grpc::ClientContext context;
  SetTimeout(context, absl::Seconds(20));
  v1::GetManifestRequest request;
  request.mutable_version()->set_step(reply_bytes);
  v1::WeightManifest response;
  return FromGrpc(stub->GetManifest(&context, request, &response));
}

absl::Status CallStream(const std::string& target, const RpcSecurity& security) {
  auto stub = v1::WeightSource::NewStub(MakeChannel(target, security));
  grpc::ClientContext context;
  SetTimeout(context, absl::Seconds(20));
  auto reader = stub->Pull(&context, {});
  v1::WeightBucket bucket;
  while (reader->Read(&bucket)) {
  }
  return FromGrpc(reader->Finish());
}

TEST_CASE("RpcServer: without the right token neither unary nor streaming calls reach a handler", "[rpc]") {
  TestService service;
  RpcServerOptions options;
  options.security = WithToken(Token::Generate());
  options.addresses = {"127.0.0.1:0", "unix:/tmp/rpc-test-" + std::to_string(::getpid()) + ".sock"};
  auto server = RpcServer::Start(options, {&service}).value();
  for (const std::string& target : {"127.0.0.1:" + std::to_string(server->ports()[0]), options.addresses[1]}) {
    INFO(target);
    std::string wrong = Token::Generate();
    for (const std::string& token : {std::string(), wrong, options.security.token + "0", std::string("x")}) {
      CHECK(CallUnary(target, WithToken(token)).code() == absl::StatusCode::kUnauthenticated);
      CHECK(CallStream(target, WithToken(token)).code() == absl::StatusCode::kUnauthenticated);
    }
    CHECK(service.calls == 0);
    CHECK(CallUnary(target, options.security).ok());
    CHECK(CallStream(target, options.security).ok());
    CHECK(service.calls.exchange(0) == 2);
  }
  CHECK_FALSE(service.saw_token);
  struct stat info;
  REQUIRE(::stat(options.addresses[1].substr(5).c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  server = nullptr;
  CHECK_FALSE(FileExists(options.addresses[1].substr(5)));
}

TEST_CASE("RpcServer: a server without a token is refused", "[rpc]") {
  TestService service;
  CHECK(RpcServer::Start({}, {&service}).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("RpcServer: a taken port or socket is named", "[rpc]") {
  TestService service;
  RpcServerOptions options;
  options.security = WithToken(Token::Generate());
  options.addresses = {"127.0.0.1:0", "unix:/tmp/rpc-taken-" + std::to_string(::getpid()) + ".sock"};
  auto first = RpcServer::Start(options, {&service}).value();
  RpcServerOptions same = options;
  same.addresses = {"127.0.0.1:" + std::to_string(first->ports()[0])};
  absl::Status status = RpcServer::Start(same, {&service}).status();
  CHECK(status.code() == absl::StatusCode::kAlreadyExists);
  CHECK(std::string(status.message()).find(same.addresses[0]) != std::string::npos);
  same.addresses = {options.addresses[1]};
  CHECK(RpcServer::Start(same, {&service}).status().code() == absl::StatusCode::kAlreadyExists);
  CHECK(FileExists(options.addresses[1].substr(5)));
}

TEST_CASE("RpcServer: addresses that others reach need TLS or the insecure flag", "[rpc]") {
  TestService service;
  RpcServerOptions options;
  options.security = WithToken(Token::Generate());
  options.addresses = {"0.0.0.0:0"};
  CHECK(RpcServer::Start(options, {&service}).status().code() == absl::StatusCode::kFailedPrecondition);
  options.security.insecure = true;
  CHECK(RpcServer::Start(options, {&service}).ok());
}

TEST_CASE("RpcServer: a message over the limit is RESOURCE_EXHAUSTED", "[rpc]") {
  TestService service;
  RpcServerOptions options;
  options.security = WithToken(Token::Generate());
  options.limits.message_bytes_max = 1000;
  auto server = RpcServer::Start(options, {&service}).value();
  std::string target = "127.0.0.1:" + std::to_string(server->ports()[0]);
  CHECK(CallUnary(target, options.security, 500).ok());
  CHECK(CallUnary(target, options.security, 2000).code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("RpcServer: TLS takes its own authority only, refuses expired certificates, and checks the token too",
          "[rpc]") {
  TestService service;
  RpcServerOptions options;
  options.security = WithToken(Token::Generate());
  options.security.cert_file = PemFile("server.pem");
  options.security.key_file = PemFile("server.key");
  auto server = RpcServer::Start(options, {&service}).value();
  std::string target = "127.0.0.1:" + std::to_string(server->ports()[0]);
  RpcSecurity client = WithToken(options.security.token);
  CHECK(CallUnary(target, client).code() == absl::StatusCode::kUnavailable);  // Plain text.
  client.ca_file = PemFile("other_ca.pem");
  CHECK(CallUnary(target, client).code() == absl::StatusCode::kUnavailable);
  client.ca_file = PemFile("ca.pem");
  CHECK(CallUnary(target, client).ok());
  client.token = Token::Generate();
  CHECK(CallStream(target, client).code() == absl::StatusCode::kUnauthenticated);
  client.ca_file = PemFile("none.pem");
  CHECK(CallUnary(target, client).code() == absl::StatusCode::kUnavailable);

  options.security.cert_file = PemFile("expired.pem");
  options.security.key_file = PemFile("expired.key");
  auto expired = RpcServer::Start(options, {&service}).value();
  client = WithToken(options.security.token);
  client.ca_file = PemFile("ca.pem");
  target = "127.0.0.1:" + std::to_string(expired->ports()[0]);
  CHECK(CallUnary(target, client).code() == absl::StatusCode::kUnavailable);
  options.security.cert_file = PemFile("none.pem");
  CHECK(RpcServer::Start(options, {&service}).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("Token: made once, with a mode that only its owner reads, and refused when others may", "[rpc]") {
  std::string folder = MakeTemporaryDirectory("token-test").value();
  std::string path = folder + "/config/token";
  CHECK(Token::Load(path).status().code() == absl::StatusCode::kNotFound);
  std::string token = Token::LoadOrCreate(path).value();
  CHECK(Token::IsWellFormed(token));
  CHECK(Token::LoadOrCreate(path).value() == token);
  CHECK(StatFile(path).value().permissions == 0600);
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK(Token::LoadOrCreate(path).status().code() == absl::StatusCode::kUnauthenticated);
  REQUIRE(WriteFileAtomic(path, "secret", 0600).ok());
  CHECK(Token::Load(path).status().code() == absl::StatusCode::kInvalidArgument);

  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], token.data(), token.size()) == static_cast<ssize_t>(token.size()));
  ::close(ends[1]);
  CHECK(Token::FromDescriptor(ends[0]).value() == token);
  CHECK_FALSE(EqualInConstantTime("abc", "abd"));
  CHECK_FALSE(EqualInConstantTime("abc", "ab"));
  CHECK(EqualInConstantTime("abc", "abc"));
  (void)RemoveTree(folder);
}

TEST_CASE("Status: codes and messages survive the way over gRPC and the wire", "[rpc]") {
  for (int code = 0; code <= 16; ++code) {
    absl::Status status(static_cast<absl::StatusCode>(code), "text");
    CHECK(FromGrpc(ToGrpc(status)) == status);
    CHECK(FromErrorStatus(ToErrorStatus(status)) == status);
  }
  v1::ErrorStatus strange;
  strange.set_code(99);
  CHECK(FromErrorStatus(strange).code() == absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace troupe
