// SPDX-License-Identifier: Apache-2.0
// Gangs: what the head does to make and remove one, without the processes of its members.
#include <thread>

#include "runtime/base/status.h"
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
    TROUPE_ASSIGN_OR_RETURN(head, HeadServer::Start(options));
    std::string target = "127.0.0.1:" + std::to_string(head->port());
    stub = v1::Head::NewStub(MakeChannel(target, options.security));
    TROUPE_ASSIGN_OR_RETURN(node, InstantNode::Start(target, options.security));
    return absl::OkStatus();
  }

  // Accepted, durably; then ended, durably, with every member gone.
  absl::Status MakeAndRemove() const {
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
    v1::SubmitJobResponse submitted;
    grpc::ClientContext submit_context, cancel_context;
    SetTimeout(submit_context, kPatience);
    TROUPE_RETURN_IF_ERROR(FromGrpc(stub->SubmitJob(&submit_context, submit, &submitted)));
    v1::CancelJobRequest cancel;
    cancel.set_job_id(submitted.job_id());
    v1::Job job;
    SetTimeout(cancel_context, kPatience);
    return FromGrpc(stub->CancelJob(&cancel_context, cancel, &job));
  }
};

absl::StatusOr<double> GangsPerSecond(const Site& site, int clients, absl::Duration budget) {
  std::vector<absl::StatusOr<double>> rates(static_cast<size_t>(clients), 0.0);
  std::vector<std::thread> threads;
  for (absl::StatusOr<double>& rate : rates) {
    threads.emplace_back([&site, &rate, budget] {
      rate = RateOf(budget, [&site]() -> absl::StatusOr<int64_t> {
        TROUPE_RETURN_IF_ERROR(site.MakeAndRemove());
        return 1;
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  double sum = 0;
  for (const absl::StatusOr<double>& rate : rates) {
    if (!rate.ok()) return rate.status();
    sum += *rate;
  }
  return sum;
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
