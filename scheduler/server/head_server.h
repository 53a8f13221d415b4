// SPDX-License-Identifier: Apache-2.0
// HeadServer: the scheduler as a server. It owns the store in `data_dir`, recovers from it, decides on one thread, and
// serves Head and NodeControl.
//
//   auto head = HeadServer::Start({.data_dir = "...", .addresses = {"127.0.0.1:7400"}, .security = security}).value();
//   ... head->port() ...
//   head->Shutdown();
//
// Actions leave (answers, commands to nodes, what readers see) when the records of their step are durable; heartbeats
// are answered at once, so that a slow disk makes none late.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/rpc/security.h"

namespace troupe {

namespace scheduler {
class RecordStore;
}

struct HeadOptions {
  std::string data_dir;  // Of the store and events.jsonl; made when needed. One live head a folder.
  std::vector<std::string> addresses = {"127.0.0.1:0"};  // "host:port" (0: any) and "unix:/path"
  RpcSecurity security;
  absl::Duration head_loss_grace = absl::Hours(24);  // How long workers go on without a head. 0: not at all.
  absl::Duration lease = absl::Seconds(10);          // A node without an answered heartbeat for so long is lost.
  absl::Duration heartbeat_interval = absl::Seconds(1);
  absl::Duration commit_timeout = absl::Seconds(30);  // A commit that takes longer is a failure of the disk.
  // Called once, on a thread of the head's, when it can decide no more (a commit failed or timed out). Nothing that was
  // not durable has left; the process should say why, end, and be started anew. It must not destroy the head: end by
  // _exit.
  std::function<void(const absl::Status&)> on_fatal;
};

class HeadServer {
 public:
  // Serves when it returns. Errors: as SqliteStore::Open (another head holds the folder, damaged store) and
  // RpcServer::Start (port in use, TLS required).
  static absl::StatusOr<std::unique_ptr<HeadServer>> Start(HeadOptions options);
  // The same on another store than the one in data_dir.
  static absl::StatusOr<std::unique_ptr<HeadServer>> StartOn(std::unique_ptr<scheduler::RecordStore> store,
                                                             HeadOptions options);
  ~HeadServer();

  // In the order of `addresses`; 0 for Unix sockets.
  const std::vector<int>& ports() const;
  // The first TCP port; 0 when there is none.
  int port() const;
  uint64_t term() const;
  // OK, or why it can decide no more.
  absl::Status status() const;

  // Refuses new calls, ends watchers and streams, makes durable what was decided. Workers go on (head_loss_grace).
  // Idempotent.
  void Shutdown();

 private:
  class Impl;
  explicit HeadServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
