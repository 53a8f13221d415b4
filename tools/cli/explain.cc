// SPDX-License-Identifier: Apache-2.0
// troupe explain: every value of a job file with its source; or why a job is where it is.
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/base/status.h"
#include "runtime/job/job_config.h"
#include "tools/cli/commands.h"
#include "tools/cli/head_client.h"
#include "tools/cli/progress_view.h"
#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

int ExplainJob(const Options& options, const std::string& job_id) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  auto job = head->Call(&v1::Head::Stub::GetJob, request);
  if (!job.ok()) return Report(job.status());
  std::cout << job_id << ": " << JobStateName(job->state()) << (job->reason().empty() ? "" : ": " + job->reason())
            << "\n";
  TextTable table({"ACTOR", "STATE", "RESTARTS", "WHY"});
  for (const v1::Actor& actor : job->actors()) {
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
