// SPDX-License-Identifier: Apache-2.0
// What every role actor does first: read its job, find the model and the tokenizer.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "actors/model/files/model_source.h"
#include "actors/tokenizer/tokenizer.h"
#include "runtime/actor/actor_context.h"
#include "runtime/job/job_config.h"

namespace troupe {

// The job file of this worker's assignment. With `model.init: random` its model.path is a folder in the run's folder
// with random weights of the job's seed, which the first worker to need it has made; the same in every process.
absl::StatusOr<JobConfig> JobOf(const ActorContext& context);

// Folder of the rows of one job in the run's folder; a new job in the same folder begins with none.
inline std::string RowsDirectory(const std::string& output_dir, const std::string& job_id) {
  return output_dir + "/rows/" + job_id;
}

// Threads that a role's computing may use: its cpus, at least one.
inline int ThreadsOf(const ActorContext& context) {
  return std::max(1, static_cast<int>(context.setting().role.resources().cpus()));
}

}  // namespace troupe
