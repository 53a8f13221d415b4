// SPDX-License-Identifier: Apache-2.0
// troupe explain: every value of a job file with its source; or why a job is where it is.
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/base/status.h"
#include "runtime/job/job_config.h"
#include "tools/cli/commands.h"
#include "tools/cli/head_client.h"
#include "tools/cli/lists.h"
#include "tools/cli/progress_view.h"
#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

// What happened to the job as a whole, and the ends and restarts of its workers.
void PrintTransitions(const v1::Explanation& why) {
  TextTable table({"TIME", "EVENT", "WHERE", "WHY"});
  for (const v1::Transition& t : why.transitions()) {
    const absl::Time time = absl::FromUnixMillis(t.unix_ms());
    std::string where = t.actor();
    if (!t.node_id().empty()) where += (where.empty() ? "" : " on ") + t.node_id();
    table.Add({absl::FormatTime("%H:%M:%E3S", time, absl::LocalTimeZone()), t.event(), where, t.reason()});
  }
  std::cout << table.ToText();
}

int ExplainJob(const Options& options, const std::string& job_id) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  v1::ExplainJobRequest request;
  request.set_job_id(job_id);
  auto why = head->Call(&v1::Head::Stub::ExplainJob, request);
  if (!why.ok()) return Report(why.status());
  v1::ListActorsRequest of_job;
  of_job.set_job_id(job_id);
  auto actors = head->Call(&v1::Head::Stub::ListActors, of_job);
  if (!actors.ok()) return Report(actors.status());
  *why->mutable_job()->mutable_actors() = std::move(*actors->mutable_actors());
  if (WantsMachine(options)) {
    std::cout << Machine(*why, options.output);
    return kDone;
  }
  const v1::Job& job = why->job();
  std::cout << job_id << ": " << JobStateName(job.state()) << (job.reason().empty() ? "" : ": " + job.reason()) << "\n";
  for (const std::string& detail : why->details()) std::cout << "  " << detail << "\n";
  PrintTransitions(*why);
  TextTable table({"ACTOR", "STATE", "RESTARTS", "WHY"});
  for (const v1::Actor& actor : job.actors()) {
    const v1::ActorId& id = actor.address().actor().id();
    std::string why = actor.reason();
    if (why.empty()) why = actor.last_exit().text();
    table.Add({id.role() + "/" + std::to_string(id.replica()), ActorStateName(actor.state()),
               std::to_string(actor.restarts()), why});
  }
  std::cout << table.ToText();
  return kDone;
}

}  // namespace

int ExplainCommand(const Options& options) {
  if (options.target.rfind("job/", 0) == 0) return ExplainJob(options, options.target.substr(4));
  absl::StatusOr<LoadedJob> job = LoadJobFile(options.target, options.overrides);
  if (!job.ok()) return Report(job.status());
  if (options.output == "yaml") {
    std::cout << JobConfigToYaml(job->config);
  } else if (options.output == "json") {
    nlohmann::ordered_json values = nlohmann::ordered_json::array();
    for (const ExplainedValue& v : job->values) {
      values.push_back({{"key", v.path}, {"value", v.value}, {"source", v.source}, {"doc", v.doc}});
    }
    std::cout << values.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else {
    TextTable table({"KEY", "VALUE", "FROM", "WHAT"});
    for (const ExplainedValue& v : job->values) table.Add({v.path, v.value, v.source, v.doc});
    std::cout << table.ToText();
  }
  return kDone;
}

}  // namespace troupe::cli
