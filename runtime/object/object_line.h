// SPDX-License-Identifier: Apache-2.0
// ObjectLine: a connection to the node's broker of memory files: requests and their replies, one at a time. Dials at
// the first request and again after the agent was restarted. A broker that did not answer (its agent is stopped, say)
// is left alone for a while, so that not every request waits for it. Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/monotonic.h"
#include "runtime/env/unix_socket.h"
#include "troupe/v1/object.pb.h"

namespace troupe {

struct ObjectAnswer {
  v1::ObjectReply reply;  // Without an error.
  std::vector<UniqueFd> fds;
};

struct ObjectLineTimeouts {
  absl::Duration reply = absl::Seconds(10);    // The broker never does long work; a starved agent may take that long.
  absl::Duration silence = absl::Seconds(30);  // After no reply within it nothing is asked for so long,
  absl::Duration again = absl::Seconds(1);     // and then a reply is waited for no longer than this.
};

class ObjectLine {
 public:
  static constexpr size_t kPacketBytesMax = 4096;

  // `dialed` runs after each dial, before anything else is asked; it may use Exchange and Tell. Its error ends the
  // line.
  ObjectLine(std::string socket_path, std::function<absl::Status(ObjectLine&)> dialed, ObjectLineTimeouts timeouts = {})
      : socket_path_(std::move(socket_path)), dialed_(std::move(dialed)), timeouts_(timeouts) {}

  // Dials when needed, and once more when the line turns out to be dead: for what may be repeated. Errors as of
  // object.proto; UNAVAILABLE: no broker answers.
  absl::StatusOr<ObjectAnswer> Ask(const v1::ObjectRequest& request, const std::vector<int>& fds = {});
  // Without dialing.
  absl::StatusOr<ObjectAnswer> Exchange(const v1::ObjectRequest& request, const std::vector<int>& fds = {});
  // One that has no reply. UNAVAILABLE: there is no line now.
  absl::Status Tell(const v1::ObjectRequest& request);
  absl::Status Dial();
  void Close() { socket_ = UnixSocket(); }
  bool open() const { return socket_.valid(); }
  // Whether Ask refuses now without asking.
  bool silent() const;

 private:
  const std::string socket_path_;
  const std::function<absl::Status(ObjectLine&)> dialed_;
  const ObjectLineTimeouts timeouts_;
  UnixSocket socket_;
  Monotonic silent_until_;  // Zero: it answered last.
};

}  // namespace troupe
