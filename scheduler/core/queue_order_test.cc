// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/queue_order.h"

#include <catch2/catch.hpp>

namespace troupe::scheduler {
namespace {

using Waiting = QueueOrder::Waiting;

Amount Total(int cpus, int devices) {
  Amount total;
  total.milli_cpus = cpus * 1000;
  total.devices = devices;
  return total;
}

QueueUse Use(int cpus, int devices = 0) {
  QueueUse use;
  use.Add(Total(cpus, devices), 1);
  use.jobs = 1;
  return use;
}

std::vector<std::string> Drain(QueueOrder& order, const QueueUse& each) {
  std::vector<std::string> ids;
  Waiting next;
  while (order.Next(next)) {
    ids.push_back(next.id.value());
    order.Placed(next, each);
  }
  return ids;
}

TEST_CASE("QueueOrder: within a queue priority goes before age", "[queue_order]") {
  QueueOrder order(Total(100, 0));
  order.AddQueue("q", 1, {});
  order.Add({JobId("old"), "q", Waiting::kWaits, 0, 1});
  order.Add({JobId("low"), "q", Waiting::kWaits, -1000, 0});
  order.Add({JobId("high"), "q", Waiting::kWaits, 1000, 9});
  order.Add({JobId("young"), "q", Waiting::kWaits, 0, 2});
  CHECK(Drain(order, Use(1)) == std::vector<std::string>{"high", "old", "young", "low"});
}

TEST_CASE("QueueOrder: queues take turns by what they hold, as their weights say", "[queue_order]") {
  QueueOrder order(Total(100, 0));
  order.AddQueue("a", 2, {});
  order.AddQueue("b", 1, {});
  for (uint64_t i = 0; i < 6; ++i) order.Add({JobId("a" + std::to_string(i)), "a", Waiting::kWaits, 0, i});
  for (uint64_t i = 0; i < 3; ++i) order.Add({JobId("b" + std::to_string(i)), "b", Waiting::kWaits, 0, 10 + i});
  CHECK(Drain(order, Use(10)) == std::vector<std::string>{"a0", "b0", "a1", "a2", "b1", "a3", "a4", "b2", "a5"});
}

TEST_CASE("QueueOrder: the share of a queue is that of the kind it holds most of", "[queue_order]") {
  QueueOrder order(Total(100, 10));
  order.AddQueue("cpus", 1, Use(30));       // 0.3
  order.AddQueue("devices", 1, Use(1, 4));  // 0.4
  order.Add({JobId("d"), "devices", Waiting::kWaits, 0, 1});
  order.Add({JobId("c"), "cpus", Waiting::kWaits, 0, 2});
  CHECK(Drain(order, Use(1)) == std::vector<std::string>{"c", "d"});
}

TEST_CASE("QueueOrder: what lost a part comes first, then those for which others gave way", "[queue_order]") {
  QueueOrder order(Total(100, 0));
  order.AddQueue("a", 1, Use(90));
  order.AddQueue("b", 1, {});
  order.Add({JobId("waits"), "b", Waiting::kWaits, 1000, 0});
  order.Add({JobId("gave_way"), "a", Waiting::kOthersGaveWay, 5, 1});
  order.Add({JobId("lost_late"), "a", Waiting::kLostSome, 0, 9});
  order.Add({JobId("lost_early"), "b", Waiting::kLostSome, 0, 8});
  CHECK(Drain(order, Use(1)) == std::vector<std::string>{"lost_early", "lost_late", "gave_way", "waits"});
}

TEST_CASE("QueueOrder: a quota names what is over it, and 0 is no limit", "[queue_order]") {
  v1::Queue queue;
  queue.set_name("q");
  CHECK(OverQuota(queue, Use(1'000'000, 1000), Use(1)).empty());
  queue.mutable_quota()->set_cpus(4);
  CHECK(OverQuota(queue, Use(3), Use(1)).empty());
  CHECK(OverQuota(queue, Use(3), Use(2)) == "queue 'q' may hold 4 cpus: it holds 3, the job asks for 2");
  queue.mutable_quota()->set_devices(2);
  Amount half;
  half.device_shares = 500;
  QueueUse more;
  more.Add(half, 1);
  CHECK(OverQuota(queue, Use(0, 1), more).empty());
  CHECK(OverQuota(queue, Use(0, 2), more) == "queue 'q' may hold 2 devices: it holds 2, the job asks for 0.5");
  queue.set_jobs_max(1);
  CHECK(OverQuota(queue, Use(1), Use(1)) == "queue 'q' may run 1 jobs at one time, and does");
}

}  // namespace
}  // namespace troupe::scheduler
