// SPDX-License-Identifier: Apache-2.0
// KeeperLink: a node agent's connection to its keeper. Finds the keeper of the runtime folder or starts one, and when
// it dies waits until its workers have died with it before it starts the next.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/agent/agent_state.h"
#include "runtime/base/mutex.h"
#include "runtime/env/unique_fd.h"
#include "runtime/env/unix_socket.h"
#include "troupe/v1/keeper.pb.h"

namespace troupe::agent {

struct KeeperLinkOptions {
  std::string runtime_dir;
  std::string keeper_program;  // Absolute.
  std::string keeper_log;      // Its own messages.
  absl::Duration agent_loss_grace;
  bool use_cgroups = true;
  std::function<void(const std::string&)> log = [](const std::string&) {};  // Lines for people.
};

// Thread-safe. Events come from one thread, in order; the first is KeeperConnected.
class KeeperLink {
 public:
  using Sink = std::function<void(AgentEvent)>;

  // Waits until there is a connected keeper. UNAVAILABLE or FAILED_PRECONDITION with what the keeper said.
  static absl::StatusOr<std::unique_ptr<KeeperLink>> Start(KeeperLinkOptions options, Sink sink);
  // Lets go of the keeper: its workers go on until agent_loss_grace.
  ~KeeperLink();

  // An order that cannot be sent is lost; KeeperDisconnected follows.
  void Spawn(const v1::KeeperSpawn& spawn);
  void Signal(const ActorLife& actor, int signal);
  void AcknowledgeExit(const ActorLife& actor);
  // Ends the keeper and what is left in it; returns when it has ended. DEADLINE_EXCEEDED: it has not.
  absl::Status ShutDownKeeper(absl::Duration timeout);

  // For tests and for people: 0 when it was started by an agent before.
  pid_t keeper_pid() const;

 private:
  KeeperLink(KeeperLinkOptions options, Sink sink) : options_(std::move(options)), sink_(std::move(sink)) {}

  absl::StatusOr<KeeperConnected> Connect();
  absl::StatusOr<KeeperConnected> Greet(UnixSocket socket);
  absl::Status StartKeeper();
  absl::Status KeeperEndedEarly();
  void KillKeeper(const UnixSocket& socket);
  void ReapKeeper();
  void Read();
  void Deliver(v1::KeeperEvent event, std::vector<UniqueFd> fds);
  void Reconnect();
  void WaitForWorkersToDie();
  uint64_t Send(v1::KeeperRequest request);
  bool stopping() const;

  const KeeperLinkOptions options_;
  const Sink sink_;

  mutable Mutex mutex_;
  std::shared_ptr<UnixSocket> socket_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_request_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, ActorLife> spawns_ ABSL_GUARDED_BY(mutex_);  // Not answered yet.
  pid_t keeper_ ABSL_GUARDED_BY(mutex_) = 0;                      // A child of this process; 0: none.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // The connection ended while stopping.
  ConditionVariable changed_;

  std::map<ActorLife, UniqueFd> pidfds_;  // Of living workers; only of the reading thread.
  std::thread reader_;
};

}  // namespace troupe::agent
