// SPDX-License-Identifier: Apache-2.0
// RunFolder: where a run goes and whether it goes on with an earlier one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/env/file_lock.h"
#include "runtime/job/job_config.h"

namespace troupe::cli {

struct RunFolder {
  std::string path;        // Absolute.
  FileLock lock;           // Held for the life of the run: a second one is refused.
  bool continues = false;  // An unfinished run of the same job was found.
  bool finished = false;   // The run is done already; there is nothing to do.
};

// Chooses the folder, locks it and writes job.yaml into it.
//   output_dir given: that folder. Otherwise, with resume auto: the newest unfinished run of the same job under
//   runs/{name}/; else runs/{name}/{time}.
// FAILED_PRECONDITION: a live process holds the folder, or the job in it differs (the message holds the differences).
absl::StatusOr<RunFolder> PrepareRunFolder(JobConfig& config, const std::string& working_directory, absl::Time now);

// Keys that may differ between the runs of one folder: they do not change what is learned.
bool IsHarmlessKey(const std::string& path);

// "trainer.seed: 1 -> 2", a line a difference that is not harmless.
std::vector<std::string> Differences(const JobConfig& before, const JobConfig& after);

}  // namespace troupe::cli
