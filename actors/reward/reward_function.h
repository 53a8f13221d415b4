// SPDX-License-Identifier: Apache-2.0
// RewardFunction: scores finished responses. One of the built-in ones, or a program of the user's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/job/job_config.h"

namespace troupe {

struct RewardInput {
  std::string id;
  std::string prompt;
  std::string response;  // special tokens skipped
  std::vector<int32_t> response_ids;
  std::string answer;
  std::string extra_json;  // the data row's other columns, an object
};

enum class RewardFault {
  kNone,
  kAnswer,   // the answer's own: a verifier's limit. Scored 0 and counted.
  kProgram,  // the program's: it crashed, hung, printed nonsense or a score that is not a number, also when tried
             // again.
};

// Numbers of an answer beside its score, and the length of a name: a call's scores must fit in one message. More are
// dropped.
inline constexpr size_t kRewardMetricsMax = 64;
inline constexpr size_t kRewardMetricNameBytesMax = 64;
// Of an answer that is told on; a longer one is cut.
inline constexpr size_t kPredBytesMax = 256;

struct RewardOutcome {
  double score = 0;  // finite as float32 too, which advantages are
  std::map<std::string, double> metrics;
  std::string pred;  // what the function took for the answer (verl's name); "": it did not say. For maj@N.
  RewardFault fault = RewardFault::kNone;
  std::string fault_text;
};

// Not thread-safe: one owner.
class RewardScorer {
 public:
  virtual ~RewardScorer() = default;
  // One outcome for each input, in their order. Never fails as a whole: faults are told by row.
  virtual std::vector<RewardOutcome> Score(absl::Span<const RewardInput> inputs) = 0;
  // Not OK: it has given up, whatever the row; the job should end with this. INVALID_ARGUMENT: the program says that it
  // cannot do its work; INTERNAL: it crashed or hung again and again.
  virtual absl::Status broken() const { return absl::OkStatus(); }
};

// INVALID_ARGUMENT: an unknown name, a pattern that is none; NOT_FOUND: no such file or program.
absl::StatusOr<std::unique_ptr<RewardScorer>> MakeBuiltinReward(const RewardFunction& function);
absl::StatusOr<std::unique_ptr<RewardScorer>> MakeProgramReward(const RewardFunction& function);
absl::StatusOr<std::unique_ptr<RewardScorer>> MakeReward(const RewardFunction& function);

// Whether a score keeps its meaning where it is used: finite, also as float32.
bool IsScore(double score);

// The weighted sum of several; metrics of their names hold each score. A row with a program's fault in one has it in
// all.
absl::StatusOr<std::unique_ptr<RewardScorer>> MakeWeightedReward(const std::vector<RewardFunction>& functions);

}  // namespace troupe
