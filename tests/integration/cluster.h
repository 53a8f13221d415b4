// SPDX-License-Identifier: Apache-2.0
// TestCluster: a head, a node agent with its keeper, and workers, each a real process, in a folder of their own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/actor_host.h"
#include "runtime/rpc/security.h"
#include "runtime/transport/transport.h"
#include "tests/integration/counter.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe::tests {

// Every wait is bounded by kPatience. The destructor ends everything and checks that nothing is left.
class TestCluster {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(30);

  TestCluster();
  ~TestCluster();

  void StartHead();
  void StartAgent();
  // Another one, which other nodes reach.
  pid_t StartNode(const std::string& node_id);
  void WaitNode(const std::string& node_id);
  static void Kill(pid_t& process, int signal);

  // A job of `replicas` counters that start at 10; its id.
  std::string Submit(int replicas);
  std::string Submit(const v1::RoleSpec& role);
  // One replica of a class of counter_worker.
  v1::RoleSpec RoleOf(const std::string& actor_class) const;
  v1::Job Get(const std::string& job_id);
  v1::Job Cancel(const std::string& job_id);
  absl::Status Scale(const std::string& job_id, int replicas);
  absl::Status Drain(const std::string& node_id, absl::Duration deadline);
  v1::Node Node(const std::string& node_id);
  // Actors of the job by replica, as the head lists them.
  std::vector<v1::Actor> Actors(const std::string& job_id);
  // Waits until all are ready with an incarnation of at least `incarnation`.
  std::vector<v1::Actor> WaitReady(const std::string& job_id, size_t count, uint64_t incarnation = 1);
  absl::StatusOr<int64_t> Add(const v1::Actor& actor, int64_t n);

  std::string Log() const;
  pid_t FindKeeper(const std::string& node_id = "") const;
  // Everything that runs below the keeper, itself included. `node_id`: of one by StartNode.
  std::vector<pid_t> NodeProcesses(const std::string& node_id = "") const;
  const std::string& output_dir() const { return output_dir_; }
  const std::shared_ptr<Transport>& transport() const { return transport_; }

  pid_t head = 0;
  pid_t agent = 0;
  std::map<std::string, pid_t> nodes;

 private:
  std::string RuntimeDir(const std::string& node_id) const { return folder_ + "/run" + node_id; }
  void EndNode(const std::string& node_id, pid_t& process);

  const std::string folder_;
  const std::string output_dir_ = folder_ + "/out";
  const std::string head_address_ = "unix:" + folder_ + "/head.sock";
  RpcSecurity security_;
  std::unique_ptr<v1::Head::Stub> stub_;
  ActorHost host_;
  std::shared_ptr<Transport> transport_;
};

}  // namespace troupe::tests
