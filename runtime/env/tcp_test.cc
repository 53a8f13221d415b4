// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/tcp.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

TEST_CASE("TcpAddress: hosts and ports are taken apart and put together again", "[tcp]") {
  CHECK(TcpAddress::Parse("127.0.0.1:7400").value().port == 7400);
  CHECK(TcpAddress::Parse("[::1]:0").value().host == "::1");
  CHECK(TcpAddress::Parse("[::1]:5").value().ToString() == "[::1]:5");
  for (const char* bad : {"", "host", "host:", ":1", "host:x", "host:-1", "host:65536", "::1:5", "host:1 "}) {
    INFO(bad);
    CHECK_FALSE(TcpAddress::Parse(bad).ok());
  }
}

TEST_CASE("TcpAddress: only addresses of this machine are loopback", "[tcp]") {
  for (const char* host : {"127.0.0.1", "127.9.0.1", "localhost", "::1"}) CHECK(TcpAddress{host, 1}.IsLoopback());
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "127.example.org", ""}) {
    INFO(host);
    CHECK_FALSE(TcpAddress{host, 1}.IsLoopback());
  }
}

TEST_CASE("LocalHostTowards: the address that packets to a host leave from", "[tcp]") {
  CHECK(LocalHostTowards({"127.0.0.1", 9}).value() == "127.0.0.1");
  CHECK(LocalHostTowards({"127.0.0.9", 9}).value() == "127.0.0.1");
  CHECK(LocalHostTowards({"::1", 9}).value() == "::1");
  CHECK(LocalHostTowards({"no-such-host.invalid", 9}).status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace troupe
