// SPDX-License-Identifier: Apache-2.0
#include "actors/reward/program_reward.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/model/files/checked_json.h"
#include "actors/reward/python_driver.h"
#include "runtime/base/shown_text.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Times a row is given to a program before it is dropped: once, and once more.
constexpr int kTriesMax = 2;
// Characters of a wrong line that are shown.
constexpr size_t kShownMax = 200;
// Of the reason of a program that cannot do its work.
constexpr size_t kFatalBytesMax = 1000;
// Lines that are no answer, between two answers, that are shown. Of the rest the number is told.
constexpr int64_t kNonsenseLinesShown = 3;

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

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// With NaN and Infinity, as Python and C print them outside strings, as null.
std::string NullForNotFinite(std::string_view line) {
  std::string out;
  for (bool in_string = false; !line.empty();) {
    size_t taken = 1;
    if (in_string) {
      taken = line[0] == '\\' && line.size() > 1 ? 2 : 1;
      in_string = line[0] != '"';
    } else if (IsLetter(line[0])) {
      while (taken < line.size() && IsLetter(line[taken])) ++taken;
      std::string_view word = line.substr(0, taken);
      if (word == "NaN" || word == "nan" || word == "Infinity" || word == "inf") {
        if (!out.empty() && out.back() == '-') out.pop_back();
        out += "null";
        line.remove_prefix(taken);
        continue;
      }
    } else {
      in_string = line[0] == '"';
    }
    out += line.substr(0, taken);
    line.remove_prefix(taken);
  }
  return out;
}

// null: the line is no answer.
json ParseAnswer(const std::string& line) {
  if (line.find_first_not_of(" \t") != line.find('{')) return nullptr;
  absl::StatusOr<json> answer = ParseJson(line, "the answer");
  // NaN is no JSON: read as null, so that the row is known.
  if (!answer.ok()) answer = ParseJson(NullForNotFinite(line), "the answer");
  return answer.ok() && answer->is_object() ? *std::move(answer) : json();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramReward>> ProgramReward::Start(ProgramRewardOptions options) {
  std::unique_ptr<ProgramReward> reward(new ProgramReward(std::move(options)));
  reward->slots_.resize(static_cast<size_t>(std::max<int64_t>(1, reward->options_.processes)));
  TROUPE_ASSIGN_OR_RETURN(reward->slots_[0].program, reward->StartProgram());
  return reward;
}

absl::StatusOr<std::unique_ptr<ChildProgram>> ProgramReward::StartProgram() const {
  return ChildProgram::Start({.argv = options_.argv, .working_dir = options_.working_dir});
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
      if (!broken_.ok()) break;
      if (slot.nonsense_in_a_row >= kNonsenseLinesMax) {
        Lose(slot, std::to_string(kNonsenseLinesMax) + " lines without an answer among them", false);
      } else if (!open) {
        Lose(slot, "the reward program ended (" + slot.program->Ending() + ")", false);
      } else if (!slot.waiting.empty() && now - slot.progress > options_.timeout) {
        Lose(slot, "no answer within " + absl::FormatDuration(options_.timeout), true);
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!done_[i])
      outcomes_[i] = {
          .score = 0, .metrics = {}, .pred = {}, .fault = RewardFault::kProgram, .fault_text = MessageOf(broken_)};
  }
  return std::move(outcomes_);
}

// Starts a program that is missing and gives it rows.
void ProgramReward::Feed(Slot& slot, absl::Span<const RewardInput> inputs, Monotonic now) {
  if (queue_.empty()) return;
  if (slot.program == nullptr) {
    absl::StatusOr<std::unique_ptr<ChildProgram>> program = StartProgram();
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
  while (!queue_.empty() && slot.waiting.size() < kProgramRowsInFlightMax &&
         slot.program->queued_bytes() < kProgramQueueBytesMax) {
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
      EndNonsense(slot);
    } else if (!slot.lines.front().empty()) {
      ++nonsense_lines_;
      if (++slot.nonsense_in_a_row > kNonsenseLinesShown) continue;
      std::fprintf(stderr, "reward program printed: %s\n", ShownText(slot.lines.front(), kShownMax).c_str());
    }
  }
}

void ProgramReward::EndNonsense(Slot& slot) {
  int64_t more = slot.nonsense_in_a_row - kNonsenseLinesShown;
  if (more > 0) std::fprintf(stderr, "reward program printed: %lld more lines\n", static_cast<long long>(more));
  slot.nonsense_in_a_row = 0;
}

void ProgramReward::TakeMetrics(const json& answer, RewardOutcome& outcome) {
  for (const auto& [name, value] : answer.items()) {
    if (name == "id" || name == "score" || !value.is_number() || !std::isfinite(value.get<double>())) continue;
    if (outcome.metrics.size() < kRewardMetricsMax && name.size() <= kRewardMetricNameBytesMax) {
      outcome.metrics[name] = value.get<double>();
    } else if (!std::exchange(told_of_metrics_, true)) {
      std::fprintf(stderr,
                   "reward program: metrics are dropped from here on: an answer has %zu at most, their names %zu "
                   "bytes ('%s' is over it)\n",
                   kRewardMetricsMax, kRewardMetricNameBytesMax, ShownText(name, kRewardMetricNameBytesMax).c_str());
    }
  }
}

// Whether the line was an answer.
bool ProgramReward::TakeAnswer(Slot& slot, absl::Span<const RewardInput> inputs, const std::string& line) {
  json answer = ParseAnswer(line);
  if (answer.is_object() && answer.contains("fatal") && answer["fatal"].is_string()) {
    broken_ = absl::InvalidArgumentError(ShownText(answer["fatal"].get<std::string>(), kFatalBytesMax));
    return true;
  }
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
  } else if (!answer.contains("score") || !answer["score"].is_number() || !IsScore(answer["score"].get<double>())) {
    Blame(row,
          "the score of row " + inputs[row].id + " is no number that float32 holds: " + ShownText(line, kShownMax));
  } else {
    done_[row] = true;
    outcome.score = answer["score"].get<double>();
    outcome.fault = RewardFault::kNone;
    TakeMetrics(answer, outcome);
    if (answer.contains("pred")) {
      const auto& pred = answer["pred"];
      outcome.pred = ShownText(pred.is_string() ? pred.get<std::string>() : pred.dump(), kPredBytesMax);
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
  EndNonsense(slot);
  ++restarts_;
  if (idle) return;
  if (answers_fault) {
    size_t row = slot.waiting.front();
    slot.waiting.pop_front();
    done_[row] = true;
    outcomes_[row] = {.score = 0, .metrics = {}, .pred = {}, .fault = RewardFault::kAnswer, .fault_text = why};
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
  options.working_dir = function.working_dir;
  if (!options.working_dir.empty() && !FileExists(options.working_dir)) {
    return absl::NotFoundError("roles.reward.working_dir: no folder " + options.working_dir);
  }
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
