// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/queue_order.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace troupe::scheduler {
namespace {

int64_t SharesOf(const Amount& amount) { return int64_t{amount.devices} * kSharesPerDevice + amount.device_shares; }

double Part(int64_t used, int64_t total) {
  return total > 0 ? static_cast<double>(used) / static_cast<double>(total) : 0;
}

}  // namespace

v1::Queue DefaultQueue() {
  v1::Queue queue;
  queue.set_name(kDefaultQueue);
  return queue;
}

void QueueUse::Add(const Amount& need, int sign) {
  milli_cpus += sign * need.milli_cpus;
  memory_bytes += sign * need.memory_bytes;
  device_shares += sign * SharesOf(need);
}

QueueUse UseOf(const std::vector<Slot>& slots) {
  QueueUse use;
  use.jobs = 1;
  for (const Slot& slot : slots) use.Add(slot.need, 1);
  return use;
}

std::string OverQuota(const v1::Queue& queue, const QueueUse& use, const QueueUse& more) {
  const Amount quota = Amount::FromProto(queue.quota());
  auto passes = [](int64_t limit, int64_t sum) { return limit > 0 && sum > limit; };
  auto text = [&](const std::string& what, double limit, double used, double asked) {
    return absl::StrCat("queue '", queue.name(), "' may hold ", limit, " ", what, ": it holds ", used,
                        ", the job asks for ", asked);
  };
  if (passes(quota.milli_cpus, use.milli_cpus + more.milli_cpus)) {
    return text("cpus", quota.milli_cpus / 1000.0, use.milli_cpus / 1000.0, more.milli_cpus / 1000.0);
  }
  if (passes(quota.memory_bytes, use.memory_bytes + more.memory_bytes)) {
    constexpr double kGiB = int64_t{1} << 30;
    return text("GiB of memory", quota.memory_bytes / kGiB, use.memory_bytes / kGiB, more.memory_bytes / kGiB);
  }
  if (passes(SharesOf(quota), use.device_shares + more.device_shares)) {
    constexpr double kWhole = kSharesPerDevice;
    return text("devices", SharesOf(quota) / kWhole, use.device_shares / kWhole, more.device_shares / kWhole);
  }
  if (!passes(queue.jobs_max(), use.jobs + more.jobs)) return "";
  return absl::StrCat("queue '", queue.name(), "' may run ", queue.jobs_max(), " jobs at one time, and does");
}

void QueueOrder::AddQueue(const std::string& name, double weight, const QueueUse& use) {
  Line& line = lines_[name];
  line.weight = weight > 0 ? weight : 1;
  line.use = use;
}

void QueueOrder::Add(Waiting job) {
  auto line = lines_.find(job.queue);
  TROUPE_CHECK(line != lines_.end(), "QUEUE-2: a job's queue is known");
  (job.rank == Waiting::kWaits ? line->second.jobs : first_).push_back(std::move(job));
}

double QueueOrder::Share(const Line& line) const {
  double dominant =
      std::max({Part(line.use.milli_cpus, total_.milli_cpus), Part(line.use.memory_bytes, total_.memory_bytes),
                Part(line.use.device_shares, SharesOf(total_))});
  return dominant / line.weight;
}

void QueueOrder::Sort() {
  sorted_ = true;
  std::sort(first_.begin(), first_.end(),
            [](const Waiting& a, const Waiting& b) { return std::tie(a.rank, a.order) < std::tie(b.rank, b.order); });
  for (auto& [name, line] : lines_) {
    std::sort(line.jobs.begin(), line.jobs.end(), [](const Waiting& a, const Waiting& b) {
      return std::tuple(-int64_t{a.priority}, a.order) < std::tuple(-int64_t{b.priority}, b.order);
    });
    if (!line.jobs.empty()) by_share_.insert({Share(line), name});
  }
}

bool QueueOrder::Next(Waiting& job) {
  if (!sorted_) Sort();
  if (next_first_ < first_.size()) {
    job = std::move(first_[next_first_++]);
    return true;
  }
  if (by_share_.empty()) return false;
  Line& line = lines_.at(by_share_.begin()->second);
  job = std::move(line.jobs[line.next++]);
  if (line.next == line.jobs.size()) by_share_.erase(by_share_.begin());
  return true;
}

void QueueOrder::Placed(const Waiting& job, const QueueUse& use) {
  Line& line = lines_.at(job.queue);
  const bool listed = by_share_.erase({Share(line), job.queue}) > 0;
  line.use.milli_cpus += use.milli_cpus;
  line.use.memory_bytes += use.memory_bytes;
  line.use.device_shares += use.device_shares;
  line.use.jobs += use.jobs;
  if (listed) by_share_.insert({Share(line), job.queue});
}

}  // namespace troupe::scheduler
