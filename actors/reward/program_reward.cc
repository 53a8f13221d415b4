// SPDX-License-Identifier: Apache-2.0
#include "actors/reward/program_reward.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>

#include "actors/reward/python_driver.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

// Times a row is given to a program before it is dropped: once, and once more.
constexpr int kTriesMax = 2;
// Characters of a wrong line that are shown.
constexpr size_t kShownMax = 200;

std::string LineOf(const RewardInput& input, size_t index) {
  ordered_json row = ordered_json::parse(input.extra_json, nullptr, false);
  if (!row.is_object()) row = ordered_json::object();
  row["id"] = std::to_string(index);
  row["row_id"] = input.id;
  row["prompt"] = input.prompt;
  row["response"] = input.response;
  row["response_ids"] = input.response_ids;
  row["answer"] = input.answer;
  return row.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Python and C print NaN, which is no JSON: read as null, so that the row is known.
ordered_json ParseAnswer(const std::string& line) {
  ordered_json answer = ordered_json::parse(line, nullptr, false);
  if (!answer.is_discarded()) return answer;
  static const std::regex kNotFinite(R"(([:\[,]\s*)-?(NaN|nan|Infinity|inf)\b)");
  return ordered_json::parse(std::regex_replace(line, kNotFinite, "$1null"), nullptr, false);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramReward>> ProgramReward::Start(ProgramRewardOptions options) {
  std::unique_ptr<ProgramReward> reward(new ProgramReward(std::move(options)));
  reward->slots_.resize(static_cast<size_t>(std::max<int64_t>(1, reward->options_.processes)));
  TROUPE_ASSIGN_OR_RETURN(reward->slots_[0].program, ChildProgram::Start(reward->options_.argv));
  return reward;
}

std::vector<RewardOutcome> ProgramReward::Score(absl::Span<const RewardInput> inputs) {
  queue_.clear();
  for (size_t i = 0; i < inputs.size(); ++i) queue_.push_back(i);
  failures_.assign(inputs.size(), 0);
  done_.assign(inputs.size(), false);
  outcomes_.assign(inputs.size(), {});
  auto busy = [&] {
    return !queue_.empty() ||
           std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.waiting.empty(); });
  };
  while (busy() && broken_.ok()) {
    Monotonic now = MonotonicNow();
    for (Slot& slot : slots_) Feed(slot, inputs, now);
    Wait(now);
    now = MonotonicNow();
    for (Slot& slot : slots_) {
      if (slot.program == nullptr) continue;
      bool open = slot.program->PumpInput();
      open = slot.program->PumpOutput(slot.lines) && open;
      TakeLines(slot, inputs, now);
      if (!open) {
        Lose(slot, "the reward program ended (" + slot.program->Ending() + ")", false);
      } else if (!slot.waiting.empty() && now - slot.progress > options_.timeout) {
        Lose(slot, "no answer within " + absl::FormatDuration(options_.timeout), true);
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!done_[i])
      outcomes_[i] = {.score = 0, .metrics = {}, .fault = RewardFault::kProgram, .fault_text = MessageOf(broken_)};
  }
  return std::move(outcomes_);
}

// Starts a program that is missing and gives it rows.
void ProgramReward::Feed(Slot& slot, absl::Span<const RewardInput> inputs, Monotonic now) {
  if (queue_.empty()) return;
  if (slot.program == nullptr) {
    absl::StatusOr<std::unique_ptr<ChildProgram>> program = ChildProgram::Start(options_.argv);
    if (!program.ok()) {
      size_t row = queue_.front();
      queue_.pop_front();
      Blame(row, MessageOf(program.status()));
      return CountCrash(MessageOf(program.status()));
    }
    slot.program = *std::move(program);
    slot.answered_ever = false;
  }
  // A row that failed before goes alone, so that only it can be to blame.
  while (!queue_.empty() && slot.waiting.size() < kProgramRowsInFlightMax) {
    size_t row = queue_.front();
    if (failures_[row] > 0 && !slot.waiting.empty()) break;
    queue_.pop_front();
    if (slot.waiting.empty()) slot.progress = now;
    slot.waiting.push_back(row);
    slot.program->QueueLine(LineOf(inputs[row], row));
    if (failures_[row] > 0) break;
  }
  if (!slot.program->PumpInput()) slot.progress = now - options_.timeout;  // noticed as ended by the next read
}

void ProgramReward::Wait(Monotonic now) {
  std::vector<ChildProgram*> programs;
  absl::Duration left = absl::Seconds(1);
  for (const Slot& slot : slots_) {
    if (slot.program == nullptr || slot.waiting.empty()) continue;
    programs.push_back(slot.program.get());
    left = std::min(left, slot.progress + options_.timeout - now);
  }
  ChildProgram::WaitAny(programs, left);
}

void ProgramReward::TakeLines(Slot& slot, absl::Span<const RewardInput> inputs, Monotonic now) {
  for (; !slot.lines.empty(); slot.lines.pop_front()) {
    if (TakeAnswer(slot, inputs, slot.lines.front())) {
      slot.answered_ever = true;
      crashes_in_a_row_ = 0;
      slot.progress = now;
    } else if (!slot.lines.front().empty()) {
      ++nonsense_lines_;
      std::fprintf(stderr, "reward program printed: %s\n", slot.lines.front().substr(0, kShownMax).c_str());
    }
  }
}

// Whether the line was an answer.
bool ProgramReward::TakeAnswer(Slot& slot, absl::Span<const RewardInput> inputs, const std::string& line) {
  ordered_json answer = ParseAnswer(line);
  if (!answer.is_object() || !answer.contains("id")) return false;
  std::string id = answer["id"].is_string() ? answer["id"].get<std::string>() : answer["id"].dump();
  auto it =
      std::find_if(slot.waiting.begin(), slot.waiting.end(), [&](size_t row) { return std::to_string(row) == id; });
  if (it == slot.waiting.end()) return false;
  size_t row = *it;
  slot.waiting.erase(it);
  RewardOutcome& outcome = outcomes_[row];
  if (answer.contains("exception") && answer["exception"].is_string()) {
    Blame(row, answer["exception"].get<std::string>());
  } else if (!answer.contains("score") || !answer["score"].is_number() ||
             !std::isfinite(answer["score"].get<double>())) {
    Blame(row, "the score of row " + inputs[row].id + " is no number: " + line.substr(0, kShownMax));
  } else {
    done_[row] = true;
    outcome.score = answer["score"].get<double>();
    outcome.fault = RewardFault::kNone;
    for (const auto& [name, value] : answer.items()) {
      if (name != "id" && name != "score" && value.is_number() && std::isfinite(value.get<double>())) {
        outcome.metrics[name] = value.get<double>();
      }
    }
    if (answer.contains("timeout") && answer["timeout"] == true) {  // its own limit, told by itself
      outcome.score = 0;
      outcome.fault = RewardFault::kAnswer;
      outcome.fault_text = "the reward program's own time limit";
    }
  }
  return true;
}

// The program crashed, hangs, or took too long for the row that waited longest: it is killed.
void ProgramReward::Lose(Slot& slot, const std::string& why, bool timed_out) {
  bool idle = slot.waiting.empty();
  bool answers_fault = timed_out && slot.answered_ever;
  slot.program.reset();
  slot.lines.clear();
  ++restarts_;
  if (idle) return;
  if (answers_fault) {
    size_t row = slot.waiting.front();
    slot.waiting.pop_front();
    done_[row] = true;
    outcomes_[row] = {.score = 0, .metrics = {}, .fault = RewardFault::kAnswer, .fault_text = why};
  } else {
    CountCrash(why);
  }
  for (; !slot.waiting.empty(); slot.waiting.pop_back()) {
    answers_fault ? queue_.push_front(slot.waiting.back()) : Blame(slot.waiting.back(), why);
  }
}

void ProgramReward::CountCrash(const std::string& why) {
  if (++crashes_in_a_row_ < options_.crashes_max) return;
  broken_ = absl::InternalError(why + ", " + std::to_string(crashes_in_a_row_) +
                                " times in a row without one answer (roles.reward.max_crashes)");
}

void ProgramReward::Blame(size_t row, const std::string& why) {
  if (++failures_[row] < kTriesMax) return queue_.push_front(row);
  done_[row] = true;
  outcomes_[row] = {.score = 0, .metrics = {}, .fault = RewardFault::kProgram, .fault_text = why};
}

absl::StatusOr<std::unique_ptr<RewardScorer>> MakeProgramReward(const RewardFunction& function) {
  ProgramRewardOptions options;
  options.timeout = function.timeout;
  options.processes = function.workers;
  options.crashes_max = function.max_crashes;
  if (!function.command.empty()) {
    options.argv = {"/bin/sh", "-c", "exec " + function.command};
  } else {
    size_t colon = function.python.rfind(':');
    std::string file = function.python.substr(0, colon);
    if (!FileExists(file)) return absl::NotFoundError("roles.reward.python: no file " + file);
    options.argv = {"python3", "-u", "-c", kPythonRewardDriver, file, function.python.substr(colon + 1)};
  }
  return ProgramReward::Start(std::move(options));
}

}  // namespace troupe
