// SPDX-License-Identifier: Apache-2.0
// ObjectExchange: a node's part in the objects of other nodes: what it gives (exchange_service.h) and what it fetches
// (object_puller.h). To the node's broker it is a process like others: what it has fetched are objects of its own,
// which are counted, bounded and spilled like theirs. A part of the node agent. See DESIGN.md.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/object/exchange_service.h"
#include "runtime/object/object_puller.h"
#include "runtime/object/object_store.h"
#include "runtime/rpc/security.h"
#include "runtime/rpc/server.h"

namespace troupe {

struct ObjectExchangeOptions {
  std::string node_id;
  std::string address;  // "host:port" to serve other nodes on; port 0: any free one.
  RpcSecurity security;
  int64_t bytes_max = 0;  // Of what it has fetched, before the node's own budget; 0: half of the machine's memory.
};

class ObjectExchange {
 public:
  // Serves, and answers UNAVAILABLE until Join. Errors as of RpcServer::Start.
  static absl::StatusOr<std::unique_ptr<ObjectExchange>> Start(ObjectExchangeOptions options);
  // What other nodes hold is let go of. When this node's processes live on, the broker ends first: then they do not
  // hear of that, and other nodes say again what they hold to the next one.
  ~ObjectExchange();

  // Begins to give and fetch for the processes of that broker. Once. Errors: it does not answer.
  absl::Status Join(const std::string& object_socket);

  // As other nodes reach it.
  const std::string& endpoint() const { return endpoint_; }

  struct Figures {
    int64_t fetched_bytes = 0;   // From other nodes, what was refused not counted.
    int64_t sent_bytes = 0;      // To other nodes.
    int64_t refused_chunks = 0;  // Cut, or with another checksum.
    size_t fetching = 0;         // Objects.
    size_t held = 0;             // By other nodes, each counted by itself.
  };
  Figures figures() const;

 private:
  explicit ObjectExchange(ObjectExchangeOptions options);

  const ObjectExchangeOptions options_;
  std::string endpoint_;
  ExchangeService service_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<ObjectStore> store_;
  std::unique_ptr<ObjectPuller> puller_;
};

}  // namespace troupe
