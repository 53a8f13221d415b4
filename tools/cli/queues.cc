// SPDX-License-Identifier: Apache-2.0
// troupe queues: what each queue holds, and what it may; troupe queue: creates one or changes its limits.
#include <iostream>

#include "runtime/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/head_client.h"
#include "tools/cli/lists.h"
#include "tools/cli/progress_view.h"
#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

// "3 of 4", or "3" without a limit.
std::string Of(double used, double limit) {
  char text[64];
  std::snprintf(text, sizeof(text), limit > 0 ? "%g of %g" : "%g", used, limit);
  return text;
}

std::string QueuesTable(const v1::ListQueuesResponse& response) {
  TextTable table({"QUEUE", "WEIGHT", "WAITING", "RUNNING", "CPUS", "MEMORY", "DEVICES"});
  for (const v1::Queue& queue : response.queues()) {
    const v1::Resources& used = queue.used();
    const v1::Resources& quota = queue.quota();
    std::string memory = ShortBytes(static_cast<double>(used.memory_bytes()));
    if (quota.memory_bytes() > 0) memory += " of " + ShortBytes(static_cast<double>(quota.memory_bytes()));
    table.Add({queue.name(), Of(queue.weight() > 0 ? queue.weight() : 1, 0), std::to_string(queue.waiting()),
               Of(queue.running(), queue.jobs_max()), Of(used.cpus(), quota.cpus()), memory,
               Of(used.devices(), quota.devices())});
  }
  return table.ToText();
}

}  // namespace

int QueuesCommand(const Options& options, SignalWaiter& signals) {
  return List<v1::ListQueuesRequest, v1::ListQueuesResponse>(options, signals, {}, &v1::Head::Stub::ListQueues,
                                                             QueuesTable);
}

int QueueCommand(const Options& options) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  v1::SetQueueRequest request;
  *request.mutable_queue() = options.queue;
  request.mutable_queue()->set_name(options.target);
  auto queue = head->Call(&v1::Head::Stub::SetQueue, request);
  if (!queue.ok()) return Report(queue.status());
  v1::ListQueuesResponse one;
  *one.add_queues() = *std::move(queue);
  std::cout << QueuesTable(one);
  return kDone;
}

}  // namespace troupe::cli
