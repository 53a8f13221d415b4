// SPDX-License-Identifier: Apache-2.0
// Gangs: what the head does to make and remove one, without the processes of its members.
#include <functional>
#include <list>
#include <optional>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "scheduler/server/head_server.h"
#include "tools/bench/bench.h"
#include "tools/bench/instant_node.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe::bench {
namespace {

constexpr int kMembers = 2;
constexpr int kClients = 64;
constexpr absl::Duration kPatience = absl::Seconds(30);

struct Site {
  std::unique_ptr<HeadServer> head;
  std::unique_ptr<v1::Head::Stub> stub;
  std::unique_ptr<InstantNode> node;
  std::string output_dir;

  absl::Status Start(const std::string& folder) {
    output_dir = folder + "/gangs";
    HeadOptions options;
    options.data_dir = folder + "/head";
    options.security.token = Token::Generate();
    const std::string target = "unix:" + folder + "/head.sock";  // As an embedded head is reached.
    options.addresses = {target};
    TROUPE_ASSIGN_OR_RETURN(head, HeadServer::Start(options));
    stub = v1::Head::NewStub(MakeChannel(target, options.security));
    TROUPE_ASSIGN_OR_RETURN(node, InstantNode::Start(target, options.security));
    return absl::OkStatus();
  }

  v1::SubmitJobRequest Gang() const {
    v1::SubmitJobRequest submit;
    submit.set_request_id(RandomHex(16));
    submit.mutable_spec()->set_name("gang");
    submit.mutable_spec()->set_output_dir(output_dir);
    for (int i = 0; i < kMembers; ++i) {
      v1::RoleSpec* role = submit.mutable_spec()->add_roles();
      role->set_role("member" + std::to_string(i));
      role->set_actor_class("Any");
      role->set_replicas(1);
      role->mutable_resources()->set_cpus(1);
    }
    return submit;
  }
};

// One of those who make gangs and remove them, one after the other, until the end: accepted, durably; then ended,
// durably, with every member gone. It holds no thread.
class Client {
 public:
  Client(const Site& site, Monotonic end) : site_(site), end_(end) { Submit(); }
  // How many, or the first error.
  absl::StatusOr<int64_t> Await() {
    MutexLock lock(mutex_);
    changed_.WaitUntil(lock, Monotonic::Infinite(), [this] { return done_; });
    return status_.ok() ? absl::StatusOr<int64_t>(count_) : status_;
  }

 private:
  using Stub = v1::Head::StubInterface::async_interface;

  void Submit() {
    submit_ = site_.Gang();
    Ask(&Stub::SubmitJob, submit_, submitted_, [this] { Cancel(); });
  }
  void Cancel() {
    cancel_.set_job_id(submitted_.job_id());
    Ask(&Stub::CancelJob, cancel_, job_, [this] {
      ++count_;
      MonotonicNow() < end_ ? Submit() : Finish(absl::OkStatus());
    });
  }
  // Every wait of it is bounded by the RPC's deadline.
  template <typename Request, typename Response>
  void Ask(void (Stub::*method)(grpc::ClientContext*, const Request*, Response*, std::function<void(grpc::Status)>),
           const Request& request, Response& response, const std::function<void()>& next) {
    context_.emplace();
    SetTimeout(*context_, kPatience);
    (site_.stub->async()->*method)(&*context_, &request, &response, [this, next](grpc::Status status) {
      status.ok() ? next() : Finish(FromGrpc(status));
    });
  }
  void Finish(const absl::Status& status) {
    MutexLock lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.NotifyAll();
  }

  const Site& site_;
  const Monotonic end_;
  std::optional<grpc::ClientContext> context_;
  v1::SubmitJobRequest submit_;
  v1::SubmitJobResponse submitted_;
  v1::CancelJobRequest cancel_;
  v1::Job job_;
  int64_t count_ = 0;
  Mutex mutex_;
  ConditionVariable changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<double> GangsPerSecond(const Site& site, int count, absl::Duration budget) {
  Monotonic begin = MonotonicNow();
  std::list<Client> clients;
  for (int i = 0; i < count; ++i) clients.emplace_back(site, begin + budget);
  int64_t sum = 0;
  absl::Status status;
  for (Client& client : clients) {
    absl::StatusOr<int64_t> made = client.Await();
    if (made.ok()) sum += *made;
    status.Update(made.status());
  }
  if (!status.ok()) return status;
  return static_cast<double>(sum) / absl::ToDoubleSeconds(MonotonicNow() - begin);
}

}  // namespace

void MeasureGangs(Bench& bench, Meter& meter) {
  Site site;
  Limit commit = Machine::Commit(bench.folder());
  Limit two_commits = {"two commits of 4 KiB", [commit](absl::Duration budget) {
                         absl::StatusOr<double> took_ms = commit.sample(budget);
                         if (took_ms.ok()) *took_ms = 1000 / (2 * *took_ms);
                         return took_ms;
                       }};
  meter.Run({{.name = "gang_1_client",
              .unit = "gangs/s",
              .sample = [&](absl::Duration budget) { return GangsPerSecond(site, 1, budget); },
              .limit = two_commits,
              .target_ratio = 0.8},
             {.name = "gang_64_clients",
              .unit = "gangs/s",
              .sample = [&](absl::Duration budget) { return GangsPerSecond(site, kClients, budget); },
              .limit = two_commits,
              .target = 5000}},
            [&] { return site.Start(bench.folder()); });
}

}  // namespace troupe::bench
