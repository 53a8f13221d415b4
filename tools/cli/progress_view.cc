// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/progress_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

using nlohmann::json;

double Number(const json& metrics, const char* key, double otherwise = NAN) {
  auto found = metrics.find(key);
  return found != metrics.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string Fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

void Append(std::string& line, const char* label, double value, int digits, const char* unit = "") {
  if (std::isfinite(value)) line += std::string("  ") + label + " " + Fixed(value, digits) + unit;
}

// "val-core/addition/reward/mean@16" -> "reward/mean@16 0.85"
std::string Validation(const json& metrics) {
  std::string text;
  for (const auto& [key, value] : metrics.items()) {
    if (key.rfind("val-core/", 0) != 0 || !value.is_number()) continue;
    size_t source_end = key.find('/', 9);
    std::string name = source_end == std::string::npos ? key.substr(9) : key.substr(source_end + 1);
    text += (text.empty() ? "" : ", ") + name + " " + Fixed(value.get<double>(), 3);
  }
  return text;
}

std::string Cut(const std::string& text, int width) {
  int seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 && seen++ == width) return text.substr(0, i);
  }
  return text;
}

}  // namespace

std::string ProgressView::AddMetrics(std::string_view text) {
  json metrics = json::parse(text, nullptr, false);
  if (!metrics.is_object()) return "";
  double step = Number(metrics, "training/global_step", Number(metrics, "step"));
  if (!std::isfinite(step)) return "";
  step_ = static_cast<int64_t>(step);
  std::string validation = Validation(metrics);
  if (!validation.empty()) validations_.push_back("step " + std::to_string(step_) + ": " + validation);
  double reward = Number(metrics, "critic/score/mean");
  double seconds = Number(metrics, "timing_s/step");
  std::string line = "step " + std::to_string(step_);
  if (job_.progress().total_steps() > 0) line += "/" + std::to_string(job_.progress().total_steps());
  if (std::isfinite(reward)) {
    rewards_.push_back(reward);
    lengths_.push_back(Number(metrics, "response_length/mean"));
    step_seconds_.push_back(seconds);
    tokens_per_second_ = Number(metrics, "perf/throughput", 0);
    staleness_ = Number(metrics, "staleness/mean", 0);
    Append(line, "reward", reward, 3);
    Append(line, "length", lengths_.back(), 1);
    Append(line, "loss", Number(metrics, "actor/pg_loss"), 4);
    Append(line, "kl", Number(metrics, "actor/kl_loss"), 4);
    Append(line, "grad", Number(metrics, "actor/grad_norm"), 2);
    Append(line, "stale", staleness_, 1);
    Append(line, "", seconds, 2, " s");
    Append(line, "", tokens_per_second_, 0, " tokens/s");
  }
  if (!validation.empty()) line += "  validation: " + validation;
  return line;
}

std::vector<std::string> ProgressView::Panel(int width, double elapsed_seconds, bool color) const {
  std::vector<std::string> lines;
  const v1::JobProgress& progress = job_.progress();
  lines.push_back(job_.spec().name() + "  " + JobStateName(job_.state()) + "  " + ShortDuration(elapsed_seconds) +
                  (job_.reason().empty() ? "" : "  " + job_.reason()));
  double total = static_cast<double>(progress.total_steps());
  auto done = static_cast<double>(std::max(step_, progress.step()));
  if (total > 0) {
    double mean = 0;
    size_t recent = std::min<size_t>(step_seconds_.size(), 10);
    for (size_t i = step_seconds_.size() - recent; i < step_seconds_.size(); ++i) mean += step_seconds_[i];
    std::string left =
        recent == 0 ? "" : "  " + ShortDuration((total - done) * mean / static_cast<double>(recent)) + " left";
    lines.push_back("step " + Fixed(done, 0) + "/" + Fixed(total, 0) + " " +
                    Bar(done / total, std::clamp(width - 40, 10, 40)) + left +
                    (progress.phase().empty() ? "" : "  " + progress.phase()));
  }
  size_t curve = static_cast<size_t>(std::clamp(width - 24, 10, 60));
  if (!rewards_.empty()) {
    auto row = [&](const char* name, const std::vector<double>& values, int digits) {
      lines.push_back(name + Sparkline(values, curve) + " " + Fixed(values.front(), digits) + " -> " +
                      Fixed(values.back(), digits));
    };
    row("reward ", rewards_, 3);
    row("length ", lengths_, 1);
    lines.push_back("speed  " + Fixed(step_seconds_.back(), 2) + " s a step, " + Fixed(tokens_per_second_, 0) +
                    " tokens/s, staleness " + Fixed(staleness_, 1));
  }
  if (!validations_.empty()) lines.push_back("held out, " + validations_.back());
  for (const v1::RoleActivity& role : progress.roles()) {
    std::string name = role.role() + "/" + std::to_string(role.replica());
    name.resize(std::max<size_t>(name.size(), 14), ' ');
    lines.push_back("  " + name + role.doing() + (role.waits_for().empty() ? "" : ", waits for " + role.waits_for()));
  }
  if (progress.roles().empty()) {
    for (const v1::Actor& actor : job_.actors()) {
      const v1::ActorId& id = actor.address().actor().id();
      lines.push_back("  " + id.role() + "/" + std::to_string(id.replica()) + "  " + ActorStateName(actor.state()) +
                      (actor.reason().empty() || actor.reason() == "started" ? "" : ": " + actor.reason()));
    }
  }
  for (std::string& line : lines) line = Cut(line, width);
  if (color) lines[0] = "\x1b[1m" + lines[0] + "\x1b[0m";
  return lines;
}

std::string EventLine(std::string_view text) {
  json event = json::parse(text, nullptr, false);
  if (!event.is_object()) return "";
  if (event.value("level", json()) != "warning" || !event.value("reason", json()).is_string()) return "";
  return event["reason"];
}

std::string JobStateName(v1::JobState state) {
  switch (state) {
    case v1::JOB_PENDING:
      return "pending";
    case v1::JOB_STARTING:
      return "starting";
    case v1::JOB_RUNNING:
      return "running";
    case v1::JOB_RECOVERING:
      return "recovering";
    case v1::JOB_STOPPING:
      return "stopping";
    case v1::JOB_SUCCEEDED:
      return "succeeded";
    case v1::JOB_FAILED:
      return "failed";
    case v1::JOB_CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

std::string ActorStateName(v1::ActorState state) {
  switch (state) {
    case v1::ACTOR_PENDING:
      return "pending";
    case v1::ACTOR_STARTING:
      return "starting";
    case v1::ACTOR_READY:
      return "ready";
    case v1::ACTOR_STOPPING:
      return "stopping";
    case v1::ACTOR_DEAD:
      return "dead";
    default:
      return "unknown";
  }
}

bool JobEnded(v1::JobState state) {
  return state == v1::JOB_SUCCEEDED || state == v1::JOB_FAILED || state == v1::JOB_CANCELLED;
}

}  // namespace troupe::cli
