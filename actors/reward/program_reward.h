// SPDX-License-Identifier: Apache-2.0
// ProgramReward: a reward function that is a program (or a Python function, by a program of ours around it).
//
// One JSON object a line each way: {"id", "prompt", "response", "response_ids", "answer", ...the row's columns} to it;
// {"id", "score", ...any metrics} back, in any order. Several rows are under way at a time. When no answer comes for
// the time limit, the row that waited longest is to blame and the program is killed, with everything in its process
// group, and restarted:
//   - it had answered others before: this answer's fault (a verifier's limit), scored 0;
//   - it had never answered: the program hangs.
// When it hangs or crashes, the rows that waited are suspects: each is tried once more, alone, so that only it can be
// to blame, and dropped if it fails again. So many ends in a row without one answer are no row's fault: the function is
// broken. So are one that says {"fatal": why} instead of an answer (the Python function does not keep to its shape, or
// cannot be imported) and, as if it hung, one that prints on and on without an answer.
#pragma once

#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "actors/reward/reward_function.h"
#include "runtime/base/monotonic.h"
#include "runtime/env/child_program.h"

namespace troupe {

// Rows sent to a program and not answered yet: hides the latency of a program that scores one after the other.
inline constexpr size_t kProgramRowsInFlightMax = 64;

// Bytes queued for a program and not read by it yet; a single row may have more.
inline constexpr size_t kProgramQueueBytesMax = 8 << 20;

// Lines in a row that are no answer, before the program is taken for one that hangs: more than any library prints.
inline constexpr int64_t kNonsenseLinesMax = 10'000;

struct ProgramRewardOptions {
  std::vector<std::string> argv;
  std::string working_dir;  // "": ours
  absl::Duration timeout = absl::Seconds(10);
  int64_t processes = 1;
  int64_t crashes_max = 10;  // crashes and hangs in a row, without an answer
};

class ProgramReward final : public RewardScorer {
 public:
  // Starts the first program, so that one that cannot start is refused at once.
  static absl::StatusOr<std::unique_ptr<ProgramReward>> Start(ProgramRewardOptions options);

  std::vector<RewardOutcome> Score(absl::Span<const RewardInput> inputs) override;

  absl::Status broken() const override { return broken_; }

  // Lines on stdout that were no answer, and programs that were started again, since Start.
  int64_t nonsense_lines() const { return nonsense_lines_; }
  int64_t restarts() const { return restarts_; }

 private:
  struct Slot {
    std::unique_ptr<ChildProgram> program;
    bool answered_ever = false;
    std::deque<size_t> waiting;  // rows sent, oldest first
    Monotonic progress;          // of the last answer, or of sending when nothing waited
    std::deque<std::string> lines;
    int64_t nonsense_in_a_row = 0;
  };

  explicit ProgramReward(ProgramRewardOptions options) : options_(std::move(options)) {}
  absl::StatusOr<std::unique_ptr<ChildProgram>> StartProgram() const;
  void Feed(Slot& slot, absl::Span<const RewardInput> inputs, Monotonic now);
  void Wait(Monotonic now);
  void TakeLines(Slot& slot, absl::Span<const RewardInput> inputs, Monotonic now);
  bool TakeAnswer(Slot& slot, absl::Span<const RewardInput> inputs, const std::string& line);
  void TakeMetrics(const nlohmann::json& answer, RewardOutcome& outcome);
  void EndNonsense(Slot& slot);
  void Lose(Slot& slot, const std::string& why, bool timed_out);
  void Blame(size_t row, const std::string& why);
  void CountCrash(const std::string& why);

  ProgramRewardOptions options_;
  std::vector<Slot> slots_;
  int64_t nonsense_lines_ = 0;
  bool told_of_metrics_ = false;
  int64_t restarts_ = 0;
  int64_t crashes_in_a_row_ = 0;
  absl::Status broken_;

  // During one Score.
  std::deque<size_t> queue_;
  std::vector<int> failures_;
  std::vector<bool> done_;
  std::vector<RewardOutcome> outcomes_;
};

}  // namespace troupe
