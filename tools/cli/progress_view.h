// SPDX-License-Identifier: Apache-2.0
// ProgressView: what a job's progress looks like. Pure: it is fed metrics and job states and returns text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/v1/head.pb.h"

namespace troupe::cli {

class ProgressView {
 public:
  // One object of metrics.jsonl. Returns the line that a pipe gets for it ("step 3/40  reward 0.66 ..."), or "" when it
  // is no step or is not readable.
  std::string AddMetrics(std::string_view json);
  // The newest state of the job.
  void SetJob(const v1::Job& job) { job_ = job; }

  // The live panel of a terminal of this width, one string a line. `elapsed_seconds`: since the job was followed.
  std::vector<std::string> Panel(int width, double elapsed_seconds, bool color) const;

  int64_t step() const { return step_; }
  double first_reward() const { return rewards_.empty() ? 0 : rewards_.front(); }
  double last_reward() const { return rewards_.empty() ? 0 : rewards_.back(); }
  // Validation results seen, newest last, as text: "step 10: greedy 0.85, sampled 0.80".
  const std::vector<std::string>& validations() const { return validations_; }

 private:
  v1::Job job_;
  int64_t step_ = 0;
  std::vector<double> rewards_;
  std::vector<double> lengths_;
  std::vector<double> step_seconds_;
  double tokens_per_second_ = 0;
  double staleness_ = 0;
  std::vector<std::string> validations_;
};

// What a line of events.jsonl tells the user of a run while it goes on, or "".
std::string EventLine(std::string_view json);

// "running", "failed", ...
std::string JobStateName(v1::JobState state);
std::string ActorStateName(v1::ActorState state);
bool JobEnded(v1::JobState state);

}  // namespace troupe::cli
