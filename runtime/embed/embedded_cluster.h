// SPDX-License-Identifier: Apache-2.0
// EmbeddedCluster: a head and a node within the program that embeds actors. runtime/ knows no scheduler: the library
// //scheduler/server:embedded registers how one is started, and a program that links it can spawn actors in processes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/rpc/security.h"

namespace troupe {

class EmbeddedCluster {
 public:
  // Ends every worker, the node and the head.
  virtual ~EmbeddedCluster() = default;
  virtual std::string head_target() const = 0;
  // Of the node, which this process is on.
  virtual std::string node_id() const = 0;
  // Of the node's broker of objects.
  virtual std::string object_socket() const = 0;
};

struct EmbeddedClusterOptions {
  std::string folder;  // Private, existing; removed by the caller after the cluster's end.
  RpcSecurity security;
  // "": that of the installation which libtroupe.so is in; else troupe_keeper beside this program.
  std::string keeper_program;
};
using EmbeddedClusterFactory =
    std::function<absl::StatusOr<std::unique_ptr<EmbeddedCluster>>(const EmbeddedClusterOptions&)>;

// Of this program; while static objects are made. Returns true.
bool RegisterEmbeddedCluster(EmbeddedClusterFactory factory);
// Empty: none is linked.
const EmbeddedClusterFactory& RegisteredEmbeddedCluster();

}  // namespace troupe
