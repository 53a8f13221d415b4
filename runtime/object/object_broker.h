// SPDX-License-Identifier: Apache-2.0
// ObjectBroker: a node's broker of memory files, a part of the node agent. Processes put sealed files under an id and
// get them by it (object_client.h), over a Unix socket; the broker only passes descriptors on and never maps one.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/env/unix_socket.h"
#include "runtime/object/object_table.h"
#include "troupe/v1/object.pb.h"

namespace troupe {

struct ObjectBrokerOptions {
  std::string socket_path;    // In a folder that only this user may enter.
  int64_t bytes_max = 0;      // Of all objects together; 0: half of the machine's memory.
  int connections_max = 512;  // One a process; more are closed at once.
};

class ObjectBroker {
 public:
  // Serves on a thread of its own when it returns. Errors as of UnixListener::Listen.
  static absl::StatusOr<std::unique_ptr<ObjectBroker>> Start(ObjectBrokerOptions options);
  // Drops every object and removes the socket.
  ~ObjectBroker();

  // Any thread: that life has ended (its exit was seen); its objects go, unless they were put with `keep`.
  void OwnerEnded(const ActorLife& life);

  int64_t bytes() const;
  size_t objects() const;

 private:
  ObjectBroker(ObjectBrokerOptions options, UnixListener listener, UnixSocket wake, UnixSocket wake_other_end);
  void Run();
  void Accept();
  // False: the connection is to be closed.
  bool Serve(UnixSocket& connection);
  v1::ObjectReply Answer(const v1::ObjectRequest& request, std::vector<UniqueFd> fds, UniqueFd& send);

  const ObjectBrokerOptions options_;
  UnixListener listener_;
  UnixSocket wake_;                      // Read by the thread.
  UnixSocket wake_other_end_;            // Shut down by the destructor.
  std::vector<UnixSocket> connections_;  // Of the thread alone.
  mutable Mutex mutex_;
  ObjectTable table_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace troupe
