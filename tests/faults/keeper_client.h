// SPDX-License-Identifier: Apache-2.0
// KeeperClient: a real keeper process in a folder of its own, and an agent's side of the connection, for tests.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/ids.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/env/unique_fd.h"
#include "runtime/env/unix_socket.h"
#include "troupe/v1/keeper.pb.h"

namespace troupe::tests {

// Every wait ends with a failed requirement after kPatience. The destructor kills what it started and removes the
// folder.
class KeeperClient {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(15);

  struct Options {
    bool use_cgroups = true;
  };
  KeeperClient() : KeeperClient(Options()) {}
  explicit KeeperClient(Options options);
  ~KeeperClient();

  void StartKeeper();
  // Connects and says hello; fills `workers` and `exits`.
  void Connect(absl::Duration agent_loss_grace = absl::Seconds(60));
  void Disconnect() { socket_ = UnixSocket(); }

  // A spawn of `sh -c script` as "test/worker/0#incarnation".
  v1::KeeperSpawn ShellWorker(uint64_t incarnation, const std::string& script) const;
  // Sends the spawn and waits for its answer; keeps the pidfd in `pidfds`.
  v1::KeeperSpawned Spawn(const v1::KeeperSpawn& spawn);
  void Signal(uint64_t incarnation, int signal);
  void Acknowledge(uint64_t incarnation);
  uint64_t Send(v1::KeeperRequest request);
  // The next event that answers `request_id`.
  v1::KeeperEvent AnswerTo(uint64_t request_id);
  v1::ExitCause WaitForExit(uint64_t incarnation);
  // Whether an exit of it came within `time`.
  bool ExitComesWithin(uint64_t incarnation, absl::Duration time);

  pid_t keeper_pid() const { return keeper_; }
  void KillKeeper();
  // Waits until the keeper has ended by itself; its wait status.
  int WaitForKeeperEnd();

  const std::string& folder() const { return folder_; }
  std::string log_path(uint64_t incarnation) const;
  std::string Log(uint64_t incarnation) const;
  // The pids that a script wrote with `echo $$ >> pids`, once there are `count`.
  std::vector<pid_t> WaitForPids(size_t count) const;

  std::map<uint64_t, UniqueFd> pidfds;
  std::map<uint64_t, pid_t> workers;
  std::map<uint64_t, v1::ExitCause> exits;

 private:
  bool ReceiveOne(Monotonic deadline);

  Options options_;
  std::string folder_;
  pid_t keeper_ = 0;
  UnixSocket socket_;
  uint64_t next_request_ = 1;
  std::map<uint64_t, std::deque<v1::KeeperEvent>> answers_;
};

// Whether the process exists and is no zombie.
bool IsAlive(pid_t pid);
bool IsReadable(int fd, absl::Duration within);

}  // namespace troupe::tests
