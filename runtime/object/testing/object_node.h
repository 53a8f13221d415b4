// SPDX-License-Identifier: Apache-2.0
// ObjectNode: a broker with its exchange and stores, as a machine has them, for tests of objects between nodes.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/object/object_broker.h"
#include "runtime/object/object_exchange.h"

namespace troupe {

inline Monotonic Soon() { return MonotonicNow() + absl::Seconds(20); }

inline const RpcSecurity kSecurity{.token = std::string(64, 'a')};

inline std::vector<std::byte> Pattern(size_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + i / 4096 + seed) >> (i % 3));
  return bytes;
}

inline bool Equal(const absl::StatusOr<ObjectPin>& pin, const std::vector<std::byte>& bytes) {
  if (!pin.ok()) std::cerr << pin.status() << "\n";  // Not Catch's INFO: this runs on several threads.
  return pin.ok() && std::equal(bytes.begin(), bytes.end(), pin->bytes().begin(), pin->bytes().end());
}

class ObjectNode {
 public:
  explicit ObjectNode(const std::string& name, int64_t bytes_max = int64_t{256} << 20) : name_(name) {
    options_.socket_path = folder_ + "/objects.sock";
    options_.bytes_max = bytes_max;
    options_.node_id = name;
    options_.spill_folder = folder_ + "/spill";
    Start(0);
  }
  ~ObjectNode() {
    for (const auto& store : stores) store->Shutdown();
    Stop();
    (void)RemoveTree(folder_);
  }
  void Start(int port) {
    exchange =
        ObjectExchange::Start({.node_id = name_, .address = "127.0.0.1:" + std::to_string(port), .security = kSecurity})
            .value();
    options_.endpoint = exchange->endpoint();
    broker = ObjectBroker::Start(options_).value();
    REQUIRE(exchange->Join(options_.socket_path).ok());
  }
  void Stop() {
    broker = nullptr;
    exchange = nullptr;
  }
  void Restart() {
    int port = std::stoi(options_.endpoint.substr(options_.endpoint.rfind(':') + 1));
    options_.resync_grace = absl::Seconds(3);
    Stop();
    Start(port);
  }
  ObjectStore& Add(const std::string& name) {
    stores.push_back(ObjectStore::Create({.name = name}));
    stores.back()->UseBroker(options_.socket_path, {{JobId("job"), name, 0}, 1});
    return *stores.back();
  }
  size_t Spilled() const { return ListDirectory(folder_ + "/spill").value_or(std::vector<std::string>()).size(); }

  std::unique_ptr<ObjectBroker> broker;
  std::unique_ptr<ObjectExchange> exchange;
  std::vector<std::shared_ptr<ObjectStore>> stores;

 private:
  const std::string name_;
  const std::string folder_ = MakeTemporaryDirectory("object-node").value();
  ObjectBrokerOptions options_;
};

inline ObjectHandle Send(ObjectStore& from, ObjectStore& to, const ObjectHandle& handle) {
  return to.Adopt(from.Describe(handle, 0, true));
}

}  // namespace troupe
