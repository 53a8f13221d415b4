// SPDX-License-Identifier: Apache-2.0
// troupe jobs, nodes, actors.
#include "tools/cli/lists.h"

#include <google/protobuf/util/json_util.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/job/yaml_text.h"
#include "tools/cli/commands.h"
#include "tools/cli/connections.h"
#include "tools/cli/head_client.h"
#include "tools/cli/progress_view.h"
#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

constexpr absl::Duration kWatchEvery = absl::Seconds(1);
constexpr int kJobsShownMax = 10'000;

std::string Age(int64_t unix_ms) {
  return unix_ms == 0 ? "-" : ShortDuration(absl::ToDoubleSeconds(WallNow() - absl::FromUnixMillis(unix_ms)));
}

std::string StepText(const v1::Job& job) {
  int64_t step = job.progress().step(), total = job.progress().total_steps();
  if (total == 0 && !job.summary_json().empty()) {  // A head that was restarted knows an ended job by its summary.
    auto summary = nlohmann::json::parse(job.summary_json(), nullptr, false);
    if (summary.is_object()) {
      step = summary.value("step", int64_t{0});
      total = summary.value("total_steps", int64_t{0});
    }
  }
  return total == 0 ? "-" : std::to_string(step) + "/" + std::to_string(total);
}

std::string JobsTable(const v1::ListJobsResponse& response) {
  TextTable table({"JOB", "NAME", "STATE", "STEP", "AGE", "WHY"});
  for (const v1::Job& job : response.jobs()) {
    table.Add({job.job_id(), job.spec().name(), JobStateName(job.state()), StepText(job), Age(job.submitted_unix_ms()),
               job.reason()});
  }
  return table.ToText();
}

std::string Share(double used, double total) {
  char text[64];
  std::snprintf(text, sizeof(text), "%g/%g", used, total);
  return text;
}

std::string LabelsText(const v1::Node& node) {
  std::map<std::string, std::string> sorted(node.labels().begin(), node.labels().end());
  std::string text;
  for (const auto& [key, value] : sorted) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text.empty() ? "-" : text;
}

std::string NodesTable(const v1::ListNodesResponse& response) {
  TextTable table({"NODE", "STATE", "CPUS", "MEMORY", "DEVICES", "HEARTBEAT", "VERSION", "LABELS", "WHY"});
  for (const v1::Node& node : response.nodes()) {
    table.Add({node.node_id(), node.state(), Share(node.used().cpus(), node.total().cpus()),
               ShortBytes(static_cast<double>(node.total().memory_bytes())),
               Share(node.used().devices(), node.total().devices()) + " " + node.total().device_kind(),
               ShortDuration(static_cast<double>(node.last_heartbeat_ms_ago()) / 1000) + " ago", node.version(),
               LabelsText(node), node.reason()});
  }
  return table.ToText();
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text.empty() ? "-" : text;
}

// `security`: null unless more than the head's word is wanted.
std::string ActorsTable(const v1::ListActorsResponse& response, const RpcSecurity* security) {
  const bool wide = security != nullptr;
  std::vector<std::string> columns = {"ACTOR", "STATE", "NODE", "PID", "RESTARTS", "AGE", "WHY"};
  if (wide) columns.insert(columns.end(), {"ENDPOINT", "LAST EXIT", "CONNECTIONS"});
  std::vector<std::vector<std::string>> connections;
  if (wide) connections = ConnectionsOf({response.actors().begin(), response.actors().end()}, *security);
  TextTable table(columns);
  size_t at = 0;
  for (const v1::Actor& actor : response.actors()) {
    const v1::ActorIncarnation& life = actor.address().actor();
    std::vector<std::string> row = {life.id().job_id() + "/" + life.id().role() + "/" +
                                        std::to_string(life.id().replica()) + "#" + std::to_string(life.incarnation()),
                                    ActorStateName(actor.state()),
                                    actor.address().node_id(),
                                    actor.address().pid() == 0 ? "-" : std::to_string(actor.address().pid()),
                                    std::to_string(actor.restarts()),
                                    Age(actor.since_unix_ms()),
                                    actor.reason()};
    if (wide) {
      row.insert(row.end(), {actor.address().endpoint(), actor.last_exit().text(), Joined(connections[at++])});
    }
    table.Add(row);
  }
  return table.ToText();
}

}  // namespace

std::string Machine(const google::protobuf::Message& message, const std::string& output) {
  google::protobuf::util::JsonPrintOptions format;
  format.add_whitespace = true;
  format.preserve_proto_field_names = true;
  format.always_print_primitive_fields = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, format).ok()) return "{}\n";
  return output == "yaml" ? YamlOfJson(text) : text;
}

int Show(const Options& options, SignalWaiter& signals, const std::function<absl::StatusOr<std::string>()>& text) {
  std::string last;
  do {
    absl::StatusOr<std::string> now = text();
    if (!now.ok()) return Report(now.status());
    if (*now != last) std::cout << *now << std::flush;
    last = *now;
  } while (options.watch && signals.Wait(kWatchEvery) == 0);
  return options.watch ? kInterrupted : kDone;
}

int JobsCommand(const Options& options, SignalWaiter& signals) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  return Show(options, signals, [&]() -> absl::StatusOr<std::string> {
    v1::ListJobsResponse all;
    v1::ListJobsRequest request;
    do {
      TROUPE_ASSIGN_OR_RETURN(v1::ListJobsResponse page, head->Call(&v1::Head::Stub::ListJobs, request));
      request.set_page_token(page.next_page_token());
      all.mutable_jobs()->MergeFrom(page.jobs());
    } while (!request.page_token().empty() && all.jobs_size() < kJobsShownMax);
    all.set_next_page_token(request.page_token());
    return WantsMachine(options) ? Machine(all, options.output) : JobsTable(all);
  });
}

int NodesCommand(const Options& options, SignalWaiter& signals) {
  return List<v1::ListNodesRequest, v1::ListNodesResponse>(options, signals, {}, &v1::Head::Stub::ListNodes,
                                                           NodesTable);
}

int ActorsCommand(const Options& options, SignalWaiter& signals) {
  v1::ListActorsRequest request;
  request.set_job_id(options.job_filter);
  absl::StatusOr<RpcSecurity> security = SecurityOf(options.connection, /*make_token=*/false);
  if (!security.ok()) return Report(security.status());
  const RpcSecurity* wide = options.output == "wide" ? &*security : nullptr;
  return List<v1::ListActorsRequest, v1::ListActorsResponse>(
      options, signals, request, &v1::Head::Stub::ListActors,
      [wide](const v1::ListActorsResponse& response) { return ActorsTable(response, wide); });
}

}  // namespace troupe::cli
