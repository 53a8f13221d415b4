// SPDX-License-Identifier: Apache-2.0
// troupe submit, troupe cancel.
#include <filesystem>
#include <iostream>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/job/job_config.h"
#include "tools/cli/commands.h"
#include "tools/cli/follow.h"
#include "tools/cli/head_client.h"
#include "tools/cli/progress_view.h"
#include "tools/cli/run_folder.h"
#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

// How long cancel waits for every process to be gone, beyond the grace.
constexpr absl::Duration kCancelSlack = absl::Seconds(60);

void PrintPlacements(const v1::SubmitJobResponse& response) {
  TextTable table({"ACTOR", "NODE", "WHY"});
  for (const v1::PlacementLine& line : response.placements()) {
    table.Add({line.actor().role() + "/" + std::to_string(line.actor().replica()), line.node_id(), line.reason()});
  }
  std::cout << table.ToText();
  if (!response.reason().empty()) std::cout << response.reason() << "\n";
}

}  // namespace

int SubmitCommand(const Options& options, SignalWaiter& signals) {
  absl::StatusOr<LoadedJob> job = LoadJobFile(options.target, options.overrides);
  if (!job.ok()) return Report(job.status());
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  v1::SubmitJobRequest request;
  request.set_request_id(RandomHex(16));
  request.set_dry_run(options.dry_run);
  std::string output_dir = std::filesystem::absolute("runs/" + job->config.name).string();
  absl::StatusOr<RunFolder> folder = absl::NotFoundError("");
  if (!options.dry_run) {
    folder = PrepareRunFolder(job->config, std::filesystem::current_path().string(), WallNow());
    if (!folder.ok()) return Report(folder.status());
    output_dir = folder->path;
    folder->lock.Release();  // from here the job's controller holds the folder
    if (folder->finished) {
      std::cerr << "the run in " << output_dir << " is finished; nothing to do (trainer.total_steps=N extends it)\n";
      return kDone;
    }
  }
  *request.mutable_spec() = MakeJobSpec(job->config, output_dir);
  auto response = head->Call(&v1::Head::Stub::SubmitJob, request);
  if (!response.ok()) return Report(response.status());
  if (options.dry_run) {
    PrintPlacements(*response);
    return kDone;
  }
  std::cout << response->job_id() << "\n" << std::flush;
  if (!options.quiet && !response->reason().empty()) std::cerr << "waits: " << response->reason() << "\n";
  if (!options.follow) return kDone;
  FollowOptions follow{.output_dir = output_dir, .quiet = options.quiet, .owns_job = false};
  return Follow(*head, response->job_id(), follow, signals);
}

int CancelCommand(const Options& options) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  v1::CancelJobRequest request;
  request.set_job_id(options.target);
  request.set_grace_ms(absl::ToInt64Milliseconds(options.grace));
  absl::Duration wait = options.no_wait ? absl::Seconds(2) : std::max(options.grace, absl::Seconds(30)) + kCancelSlack;
  auto job = head->Call(&v1::Head::Stub::CancelJob, request, wait);
  if (!job.ok() && options.no_wait && job.status().code() == absl::StatusCode::kDeadlineExceeded) {
    std::cerr << options.target << ": its processes are being ended\n";
    return kDone;
  }
  if (!job.ok()) return Report(job.status());
  std::cerr << options.target << ": " << JobStateName(job->state())
            << (job->reason().empty() ? "" : ": " + job->reason()) << "\n";
  return kDone;
}

}  // namespace troupe::cli
