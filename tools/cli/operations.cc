// SPDX-License-Identifier: Apache-2.0
// troupe groups, scale, drain, undrain: what changes while jobs run. Those that wait report each step that they see.
#include <algorithm>
#include <iostream>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "tools/cli/commands.h"
#include "tools/cli/head_client.h"
#include "tools/cli/lists.h"
#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(200);
// More replicas than there is room for may wait for days: so long the command looks whether they start.
constexpr absl::Duration kScaleWaitMax = absl::Minutes(1);
// Beyond the deadline of a drain, for what was stopped there to end.
constexpr absl::Duration kDrainSlack = absl::Minutes(2);

const char* PolicyName(v1::GroupPolicy policy) {
  return policy == v1::ALL_FOR_ONE ? "all_for_one" : policy == v1::ELASTIC ? "elastic" : "one_for_one";
}

std::string GroupsTable(const v1::ListGroupsResponse& response) {
  TextTable table({"JOB", "GROUP", "POLICY", "GENERATION", "READY", "LIVE", "WANTED", "BOUNDS", "WHY"});
  for (const v1::Group& group : response.groups()) {
    table.Add({group.job_id(), group.name(), PolicyName(group.policy()),
               group.generation() == 0 ? "-" : std::to_string(group.generation()), std::to_string(group.ready()),
               std::to_string(group.live()), std::to_string(group.wanted()),
               absl::StrCat(group.min_replicas(), "..", group.max_replicas()), group.reason()});
  }
  return table.ToText();
}

absl::StatusOr<v1::ScaleJobRequest> ParseScale(const std::string& job, const std::string& text) {
  const size_t equals = text.find('=');
  v1::ScaleJobRequest request;
  int32_t replicas = 0;
  if (equals == 0 || equals == std::string::npos || !absl::SimpleAtoi(text.substr(equals + 1), &replicas)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no ROLE=N, such as rollout=4"));
  }
  request.set_job_id(job);
  request.set_role(text.substr(0, equals));
  request.set_replicas(replicas);
  return request;
}

// "" when as many run as are wanted and no more; else what is missing.
std::string Missing(const v1::ScaleJobRequest& wanted, const std::vector<v1::Actor>& actors) {
  int ready = 0, beyond = 0;
  std::string why;
  for (const v1::Actor& actor : actors) {
    const v1::ActorId& id = actor.address().actor().id();
    if (id.role() != wanted.role()) continue;
    const bool dead = actor.state() == v1::ACTOR_DEAD;
    if (id.replica() >= wanted.replicas()) {
      beyond += !dead && actor.state() != v1::ACTOR_PENDING;
    } else if (actor.state() == v1::ACTOR_READY || dead) {  // Dead and wanted: it has done its work.
      ++ready;
    } else if (why.empty()) {
      why = absl::StrCat(" (", id.role(), "/", id.replica(), ": ", actor.reason().empty() ? "starts" : actor.reason(),
                         ")");
    }
  }
  if (beyond > 0) return absl::StrCat(beyond, " of ", wanted.role(), " are stopping");
  if (ready >= wanted.replicas()) return "";
  return absl::StrCat(ready, " of ", wanted.replicas(), " ", wanted.role(), " are ready", why);
}

// Looks at the actors of the job until `text` says "", and prints each other thing that it says.
int WaitUntil(SignalWaiter& signals, absl::Duration patience, const std::function<absl::StatusOr<std::string>()>& text,
              const std::string& what, const std::string& given_up) {
  const Monotonic end = MonotonicNow() + patience;
  std::string last;
  do {
    absl::StatusOr<std::string> now = text();
    if (!now.ok()) return Report(now.status());
    if (now->empty()) {
      std::cerr << what << "\n";
      return kDone;
    }
    if (*now != last) std::cerr << *now << "\n";
    last = *now;
    if (MonotonicNow() >= end) {
      std::cerr << given_up << "\n";
      return kDone;
    }
  } while (signals.Wait(kLookEvery) == 0);
  return kInterrupted;
}

absl::StatusOr<std::vector<v1::Actor>> ActorsOf(const HeadClient& head, const std::string& job) {
  v1::ListActorsRequest request;
  request.set_job_id(job);
  TROUPE_ASSIGN_OR_RETURN(v1::ListActorsResponse response, head.Call(&v1::Head::Stub::ListActors, request));
  return std::vector<v1::Actor>(response.actors().begin(), response.actors().end());
}

// "" when nothing runs there any more.
absl::StatusOr<std::string> LeftOn(const HeadClient& head, const std::string& node_id) {
  TROUPE_ASSIGN_OR_RETURN(v1::ListNodesResponse nodes, head.Call(&v1::Head::Stub::ListNodes, v1::ListNodesRequest()));
  for (const v1::Node& node : nodes.nodes()) {
    if (node.node_id() != node_id) continue;
    if (node.state() == "drained" || node.state() == "lost") return std::string();
    if (!node.draining()) return absl::FailedPreconditionError(node_id + " was undrained meanwhile");
  }
  TROUPE_ASSIGN_OR_RETURN(std::vector<v1::Actor> actors, ActorsOf(head, ""));
  int left = 0;
  std::string first;
  for (const v1::Actor& actor : actors) {
    const bool there =
        actor.address().node_id() == node_id && actor.state() != v1::ACTOR_DEAD && actor.state() != v1::ACTOR_PENDING;
    left += there;
    const v1::ActorId& id = actor.address().actor().id();
    if (there && first.empty()) first = absl::StrCat(id.job_id(), "/", id.role(), "/", id.replica());
  }
  return absl::StrCat(node_id, ": ", left, left == 1 ? " worker is" : " workers are", " left",
                      first.empty() ? "" : ", the first is ", first);
}

}  // namespace

int GroupsCommand(const Options& options, SignalWaiter& signals) {
  v1::ListGroupsRequest request;
  request.set_job_id(options.target);
  return List<v1::ListGroupsRequest, v1::ListGroupsResponse>(options, signals, request, &v1::Head::Stub::ListGroups,
                                                             GroupsTable);
}

int ScaleCommand(const Options& options, SignalWaiter& signals) {
  std::vector<v1::ScaleJobRequest> requests;
  for (const std::string& text : options.scales) {
    absl::StatusOr<v1::ScaleJobRequest> request = ParseScale(options.target, text);
    if (!request.ok()) return Report(request.status());
    requests.push_back(*std::move(request));
  }
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  for (const v1::ScaleJobRequest& request : requests) {
    auto job = head->Call(&v1::Head::Stub::ScaleJob, request);
    if (!job.ok()) return Report(job.status());
    if (options.no_wait) std::cerr << options.target << ": " << request.role() << " = " << request.replicas() << "\n";
  }
  if (options.no_wait) return kDone;
  auto missing = [&]() -> absl::StatusOr<std::string> {
    TROUPE_ASSIGN_OR_RETURN(std::vector<v1::Actor> actors, ActorsOf(*head, options.target));
    for (const v1::ScaleJobRequest& request : requests) {
      if (std::string text = Missing(request, actors); !text.empty()) return text;
    }
    return std::string();
  };
  std::string done = options.target + ":";
  for (const std::string& text : options.scales) done += " " + text;
  return WaitUntil(
      signals, kScaleWaitMax, missing, done,
      "it goes on by itself: what has no place is started when there is one ('troupe groups " + options.target + "')");
}

int DrainCommand(const Options& options, SignalWaiter& signals) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  v1::DrainNodeRequest request;
  request.set_node_id(options.target);
  request.set_deadline_ms(std::max<int64_t>(1, absl::ToInt64Milliseconds(options.deadline)));
  request.set_reason(options.reason);
  auto node = head->Call(&v1::Head::Stub::DrainNode, request);
  if (!node.ok()) return Report(node.status());
  if (options.no_wait) {
    std::cerr << options.target << ": " << node->state() << "\n";
    return kDone;
  }
  return WaitUntil(
      signals, options.deadline + kDrainSlack, [&] { return LeftOn(*head, options.target); },
      options.target + ": drained", options.target + ": its deadline has passed and processes there still end");
}

int UndrainCommand(const Options& options) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  v1::UndrainNodeRequest request;
  request.set_node_id(options.target);
  auto node = head->Call(&v1::Head::Stub::UndrainNode, request);
  if (!node.ok()) return Report(node.status());
  std::cerr << options.target << ": " << node->state() << "\n";
  return kDone;
}

}  // namespace troupe::cli
