// SPDX-License-Identifier: Apache-2.0
// QueueOrder: in which order jobs that wait are tried. Within a queue by priority, then age. Between queues, the one
// whose dominant share of the cluster, divided by its weight, is smallest comes first, so that queues that want more
// than there is get what their weights say (dominant resource fairness: Ghodsi et al. 2011, section 4). Jobs that lost
// a part of their places come before all others, in the order of their age; then those for which others gave way.
// Pure and not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "scheduler/core/slots.h"

namespace troupe::scheduler {

inline constexpr char kDefaultQueue[] = "default";
inline constexpr size_t kQueuesMax = 1'000;
inline constexpr double kQueueWeightMax = 1e6;

v1::Queue DefaultQueue();

// What the jobs of a queue hold together.
struct QueueUse {
  int64_t milli_cpus = 0;
  int64_t memory_bytes = 0;
  int64_t device_shares = 0;  // Thousandths; a whole device is kSharesPerDevice.
  int64_t jobs = 0;           // That hold places.

  void Add(const Amount& need, int sign);
  friend bool operator==(const QueueUse&, const QueueUse&) = default;
};
// All slots of one job.
QueueUse UseOf(const std::vector<Slot>& slots);

// "" or a sentence on the first limit of the queue that `more` on top of `use` would pass. A limit of 0 is none.
std::string OverQuota(const v1::Queue& queue, const QueueUse& use, const QueueUse& more);

class QueueOrder {
 public:
  struct Waiting {
    JobId id;
    std::string queue;
    enum Rank { kLostSome, kOthersGaveWay, kWaits } rank = kWaits;
    int32_t priority = 0;
    uint64_t order = 0;  // Of submission.
  };

  // `total`: what the cluster has.
  explicit QueueOrder(const Amount& total) : total_(total) {}

  void AddQueue(const std::string& name, double weight, const QueueUse& use);
  // Requires: its queue was added.
  void Add(Waiting job);

  // Takes the next job to try out of the order. False: there is none.
  bool Next(Waiting& job);
  // The job's queue holds so much more.
  void Placed(const Waiting& job, const QueueUse& use);

 private:
  struct Line {
    double weight = 1;
    QueueUse use;
    std::vector<Waiting> jobs;  // Sorted at the first Next.
    size_t next = 0;
  };
  double Share(const Line& line) const;
  void Sort();

  const Amount total_;
  std::map<std::string, Line> lines_;
  std::vector<Waiting> first_;  // Ranks before kWaits.
  size_t next_first_ = 0;
  std::set<std::pair<double, std::string>> by_share_;  // Queues with jobs left.
  bool sorted_ = false;
};

}  // namespace troupe::scheduler
