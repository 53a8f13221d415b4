// SPDX-License-Identifier: Apache-2.0
// troupe logs: lines of every process of a job, merged by time.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <thread>

#include "runtime/base/nearest.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "tools/cli/commands.h"
#include "tools/cli/head_client.h"

namespace troupe::cli {
namespace {

// "rollout" or "rollout/1".
absl::Status SetRole(const std::string& text, v1::ReadLogsRequest& request) {
  size_t slash = text.find('/');
  request.set_role(text.substr(0, slash));
  request.set_replica(-1);
  if (slash == std::string::npos) return absl::OkStatus();
  int32_t replica = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data() + slash + 1, end, replica);
  if (error != std::errc() || rest != end || replica < 0) {
    return absl::InvalidArgumentError("'" + text + "' is no role: expected ROLE or ROLE/N");
  }
  request.set_replica(replica);
  return absl::OkStatus();
}

absl::Status CheckRole(const HeadClient& head, const v1::ReadLogsRequest& logs) {
  if (logs.role().empty()) return absl::OkStatus();
  v1::GetJobRequest request;
  request.set_job_id(logs.job_id());
  TROUPE_ASSIGN_OR_RETURN(v1::Job job, head.Call(&v1::Head::Stub::GetJob, request));
  std::vector<std::string> roles;
  for (const v1::RoleSpec& role : job.spec().roles()) roles.push_back(role.role());
  if (std::find(roles.begin(), roles.end(), logs.role()) != roles.end()) return absl::OkStatus();
  std::string nearest = NearestOf(logs.role(), roles), known;
  for (const std::string& role : roles) known += (known.empty() ? "" : ", ") + role;
  return absl::NotFoundError("job " + logs.job_id() + " has no role '" + logs.role() + "'" +
                             (nearest.empty() ? "; its roles: " + known : ": did you mean '" + nearest + "'?"));
}

void Print(const v1::LogLine& line) {
  std::string time = absl::FormatTime("%H:%M:%E6S", absl::FromUnixMicros(line.unix_us()), absl::LocalTimeZone());
  std::cout << time << " " << line.actor().role() << "/" << line.actor().replica() << (line.is_stderr() ? " ! " : "   ")
            << line.text() << "\n";
}

}  // namespace

int LogsCommand(const Options& options, SignalWaiter& signals) {
  v1::ReadLogsRequest request;
  request.set_job_id(options.target);
  if (absl::Status status = SetRole(options.role, request); !status.ok()) return Report(status);
  request.set_follow(options.follow);
  if (options.since != absl::InfiniteDuration()) {
    request.set_since_unix_ms(absl::ToUnixMillis(WallNow() - options.since));
  }
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  if (absl::Status status = CheckRole(*head, request); !status.ok()) return Report(status);
  grpc::ClientContext context;
  if (!options.follow) SetTimeout(context, absl::Minutes(1));
  absl::Status status;
  std::atomic<bool> done = false;
  std::thread reader_thread([&] {
    auto reader = head->stub().ReadLogs(&context, request);
    v1::LogLine line;
    while (reader->Read(&line)) {
      Print(line);
      if (options.follow) std::cout << std::flush;
    }
    status = FromGrpc(reader->Finish());
    done = true;
    signals.Wake();
  });
  bool interrupted = false;
  while (!done && !interrupted) interrupted = signals.Wait(absl::Seconds(1)) != 0;
  if (interrupted) context.TryCancel();
  reader_thread.join();
  std::cout << std::flush;
  if (interrupted) return kInterrupted;
  return status.ok() ? kDone : Report(head->Explain(status));
}

}  // namespace troupe::cli
