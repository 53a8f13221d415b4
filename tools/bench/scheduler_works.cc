// SPDX-License-Identifier: Apache-2.0
// The scheduler's decisions on simulated nodes of eight devices: no disk, no network, no processes. Gangs of ten ask
// for six devices in all; nine tenths of all devices are taken while gangs come and go.
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "scheduler/testing/simulated_cluster.h"
#include "tools/bench/bench.h"

namespace troupe::bench {
namespace {

using scheduler::SimulatedCluster;

constexpr int kDevicesPerNode = 8;
constexpr int kDevicesPerGang = 6;
constexpr int kOthersPerGang = 4;
constexpr double kTaken = 0.9;
constexpr int kLargeGang = 1000;
constexpr double kRoomyCpus = 1024;

void AddRole(const std::string& name, int replicas, double cpus, int devices, v1::JobSpec& spec) {
  v1::RoleSpec* role = spec.add_roles();
  role->set_role(name);
  role->set_actor_class("Any");
  role->set_replicas(replicas);
  role->mutable_resources()->set_cpus(cpus);
  role->mutable_resources()->set_devices(devices);
}

v1::JobSpec NewJob() {
  v1::JobSpec spec;
  spec.set_name("gang");
  spec.set_output_dir("/tmp/simulated");
  return spec;
}

double HeapMiB() {
  struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / (1 << 20);
}

// A cluster that is nine tenths full; made when it is first used.
class Full {
 public:
  explicit Full(int nodes) : nodes_(nodes) {}

  absl::Status Fill() {
    if (cluster_ != nullptr) return absl::OkStatus();
    const double before = HeapMiB();
    cluster_ =
        std::make_unique<SimulatedCluster>(scheduler::SimulatedNodes{.nodes = nodes_, .devices = kDevicesPerNode});
    const int gangs = static_cast<int>(kTaken * nodes_ * kDevicesPerNode / kDevicesPerGang);
    for (int i = 0; i < gangs; ++i) TROUPE_RETURN_IF_ERROR(Submit());
    heap_mib_ = HeapMiB() - before;
    return absl::OkStatus();
  }
  // One gang goes, another one comes. What of it: the coming one's decision.
  absl::StatusOr<absl::Duration> Exchange() {
    TROUPE_RETURN_IF_ERROR(Fill());
    std::swap(jobs_[random_() % jobs_.size()], jobs_.back());
    cluster_->Cancel(jobs_.back());
    jobs_.pop_back();
    TROUPE_RETURN_IF_ERROR(Submit());
    return cluster_->last().took;
  }
  // A job that asks for more processors than a node has left comes, waits and goes.
  absl::StatusOr<absl::Duration> Wait() {
    TROUPE_RETURN_IF_ERROR(Fill());
    if (!roomy_taken_) {
      cluster_->AddNode("roomy", kRoomyCpus, 0);
      TROUPE_RETURN_IF_ERROR(SubmitOne("taker", 1, kRoomyCpus, 0).status());
      roomy_taken_ = true;
    }
    TROUPE_ASSIGN_OR_RETURN(std::string job, SubmitOne("waiter", 1, kRoomyCpus, 0));
    const scheduler::Decision decision = cluster_->last();
    cluster_->Cancel(job);
    if (decision.placed > 0) return absl::InternalError("a job was placed where there is no room");
    return decision.took;
  }
  // A node with a thousand workers of one gang is lost, and they are placed on others in the same decision. Until then
  // nothing else was free.
  absl::StatusOr<absl::Duration> Replace() {
    static constexpr char kNode[] = "zoo";
    TROUPE_RETURN_IF_ERROR(Fill());
    const int free = nodes_ * kDevicesPerNode - static_cast<int>(jobs_.size()) * kDevicesPerGang;
    TROUPE_ASSIGN_OR_RETURN(std::string filler, SubmitOne("filler", free, 0, 1));
    cluster_->AddNode(kNode, kLargeGang, kLargeGang);
    TROUPE_ASSIGN_OR_RETURN(std::string gang, SubmitOne("member", kLargeGang, 0, 1));
    cluster_->Cancel(filler);
    cluster_->AddNode(kNode, 0, 0);
    const scheduler::Decision decision = cluster_->last();
    const NodeId now = cluster_->cluster().state().FindJob(JobId(gang))->placed[0].node;
    cluster_->Cancel(gang);
    if (decision.placed == kLargeGang && now.value() != kNode) return decision.took;
    return absl::InternalError(absl::StrCat(decision.placed, " workers were placed anew, one on ", now.value()));
  }
  SimulatedCluster& cluster() { return *cluster_; }
  double heap_mib() const { return heap_mib_; }

 private:
  absl::StatusOr<std::string> SubmitOne(const std::string& role, int replicas, double cpus, int devices) {
    v1::JobSpec spec = NewJob();
    AddRole(role, replicas, cpus, devices, spec);
    return cluster_->Submit(spec);
  }
  absl::Status Submit() {
    v1::JobSpec spec = NewJob();
    AddRole("rollout", kDevicesPerGang, 1, 1, spec);
    AddRole("reward", kOthersPerGang, 1, 0, spec);
    TROUPE_ASSIGN_OR_RETURN(std::string job, cluster_->Submit(spec));
    jobs_.push_back(job);
    if (cluster_->last().placed == kDevicesPerGang + kOthersPerGang) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(job, " was not placed though there is room"));
  }

  const int nodes_;
  std::unique_ptr<SimulatedCluster> cluster_;
  double heap_mib_ = 0;
  bool roomy_taken_ = false;
  std::vector<std::string> jobs_;
  std::mt19937 random_{7};
};

// Of Full::Exchange: workers placed a second, by the time of the decisions that place them.
absl::StatusOr<double> PlacementsPerSecond(Full& full, absl::Duration budget) {
  absl::Duration deciding;
  int64_t placed = 0;
  for (const Monotonic end = MonotonicNow() + budget; MonotonicNow() < end || placed == 0;) {
    TROUPE_ASSIGN_OR_RETURN(absl::Duration took, full.Exchange());
    deciding += took;
    placed += full.cluster().last().placed;
  }
  return static_cast<double>(placed) / absl::ToDoubleSeconds(deciding);
}

// Workers that lived a second, by the time of every step of theirs.
absl::StatusOr<double> LivesPerSecond(Full& full, absl::Duration budget) {
  TROUPE_RETURN_IF_ERROR(full.Fill());
  const absl::Duration before = full.cluster().deciding();
  int64_t lived = 0;
  for (const Monotonic end = MonotonicNow() + budget; MonotonicNow() < end || lived == 0;) {
    TROUPE_RETURN_IF_ERROR(full.Exchange().status());
    lived += kDevicesPerGang + kOthersPerGang;
  }
  return static_cast<double>(lived) / absl::ToDoubleSeconds(full.cluster().deciding() - before);
}

absl::StatusOr<double> SlowestInAHundred(Full& full, absl::Duration budget) {
  std::vector<absl::Duration> took;
  for (const Monotonic end = MonotonicNow() + budget; MonotonicNow() < end || took.size() < 100;) {
    TROUPE_ASSIGN_OR_RETURN(took.emplace_back(), full.Exchange());
  }
  std::sort(took.begin(), took.end());
  return absl::ToDoubleMilliseconds(took[took.size() * 99 / 100]);
}

absl::StatusOr<double> WaitMicroseconds(Full& full, absl::Duration budget) {
  absl::Duration deciding;
  int64_t count = 0;
  for (const Monotonic end = MonotonicNow() + budget; MonotonicNow() < end || count == 0; ++count) {
    TROUPE_ASSIGN_OR_RETURN(absl::Duration took, full.Wait());
    deciding += took;
  }
  return absl::ToDoubleMicroseconds(deciding) / static_cast<double>(count);
}

}  // namespace

void MeasureScheduler(Bench&, Meter& meter) {
  Full small(100), middle(1'000), large(10'000);
  // What costs log n of n nodes would do as many, by the rate on a hundred nodes.
  auto slower = [&small](int nodes) {
    return Limit{"100 nodes, cost x log n", [&small, nodes](absl::Duration budget) {
                   absl::StatusOr<double> rate = PlacementsPerSecond(small, budget);
                   if (rate.ok()) *rate *= std::log(100) / std::log(nodes);
                   return rate;
                 }};
  };
  auto placements = [](Full& full) {
    return [&full](absl::Duration budget) { return PlacementsPerSecond(full, budget); };
  };
  auto wait = [](Full& full) { return [&full](absl::Duration budget) { return WaitMicroseconds(full, budget); }; };
  meter.Run({{.name = "placements_100_nodes", .unit = "/s", .sample = placements(small), .target = 100'000},
             {.name = "placements_1000_nodes",
              .unit = "/s",
              .sample = placements(middle),
              .limit = slower(1'000),
              .target = 100'000,
              .target_ratio = 1},
             {.name = "placements_10000_nodes",
              .unit = "/s",
              .sample = placements(large),
              .limit = slower(10'000),
              .target = 100'000,
              .target_ratio = 1},
             {.name = "placement_slowest_in_100",
              .unit = "ms",
              .more_is_better = false,
              .sample = [&](absl::Duration budget) { return SlowestInAHundred(large, budget); },
              .target = 5},
             {.name = "lives_10000_nodes",
              .unit = "/s",
              .sample = [&](absl::Duration budget) { return LivesPerSecond(large, budget); }},
             {.name = "wait_100_nodes", .unit = "us", .more_is_better = false, .sample = wait(small)},
             {.name = "wait_1000_nodes", .unit = "us", .more_is_better = false, .sample = wait(middle)},
             {.name = "wait_10000_nodes", .unit = "us", .more_is_better = false, .sample = wait(large)},
             {.name = "gang_of_1000_replaced",
              .unit = "ms",
              .more_is_better = false,
              .sample = [&](absl::Duration) -> absl::StatusOr<double> {
                TROUPE_ASSIGN_OR_RETURN(absl::Duration took, large.Replace());
                return absl::ToDoubleMilliseconds(took);
              },
              .target = 50},
             {.name = "scheduler_memory",
              .unit = "MiB",
              .more_is_better = false,
              .sample = [&](absl::Duration) -> absl::StatusOr<double> {
                TROUPE_RETURN_IF_ERROR(large.Fill());
                return large.heap_mib();
              },
              .target = 2048,
              .repeats_max = 1}},
            [] { return absl::OkStatus(); });
}

}  // namespace troupe::bench
