// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/meter.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "tools/bench/processor_use.h"

namespace troupe::bench {
namespace {

// "1.23M", "45.6", "0.0123"
std::string Short(double value) {
  static constexpr std::pair<double, char> kUnits[] = {{1e9, 'G'}, {1e6, 'M'}, {1e3, 'k'}};
  for (auto [size, letter] : kUnits) {
    if (std::abs(value) < size * 10) continue;
    char text[32];
    std::snprintf(text, sizeof(text), "%.4g%c", value / size, letter);
    return text;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string TargetText(const Work& work) {
  const char* sign = work.more_is_better ? ">= " : "<= ";
  std::string text;
  if (work.target_ratio) text = sign + Short(*work.target_ratio) + " x limit";
  if (work.target) text += (text.empty() ? "" : ", ") + (sign + Short(*work.target));
  return text;
}

bool Reaches(double value, double target, bool more_is_better) {
  return more_is_better ? value >= target : value <= target;
}

double Min(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }
double Max(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<double> Figure::Ratios() const {
  std::vector<double> ratios;
  for (size_t i = 0; i < limits.size(); ++i) ratios.push_back(samples[i] / limits[i]);
  return ratios;
}

std::optional<bool> Reached(const Work& work, const Figure& figure) {
  std::optional<bool> reached;
  if (work.target) reached = Reaches(Median(figure.samples), *work.target, work.more_is_better);
  if (work.target_ratio && !figure.limits.empty()) {
    reached = reached.value_or(true) && Reaches(Median(figure.Ratios()), *work.target_ratio, work.more_is_better);
  }
  return reached;
}

std::string JsonLine(const Work& work, const Figure& figure) {
  nlohmann::ordered_json line = {
      {"name", work.name},          {"unit", work.unit},          {"median", Median(figure.samples)},
      {"min", Min(figure.samples)}, {"max", Max(figure.samples)}, {"n", figure.samples.size()}};
  line["limit"] = nullptr;
  line["limit_name"] = work.limit ? work.limit->name : "";
  if (!figure.limits.empty()) {
    std::vector<double> ratios = figure.Ratios();
    line["limit"] = Median(figure.limits);
    line["ratio"] = Median(ratios);
    line["ratio_min"] = Min(ratios);
    line["ratio_max"] = Max(ratios);
  }
  line["clean"] = figure.clean();
  line["others"] = figure.others;
  line["more_is_better"] = work.more_is_better;
  if (work.target) line["target"] = *work.target;
  if (work.target_ratio) line["target_ratio"] = *work.target_ratio;
  if (std::optional<bool> reached = Reached(work, figure)) line["reached"] = *reached;
  return line.dump();
}

std::string TableHeading() {
  char line[256];
  std::snprintf(line, sizeof(line), "%-33s %9s %-8s %9s %9s %3s  %-38s %6s  %-24s", "work", "median", "unit", "min",
                "max", "n", "limit of this machine", "ratio", "target");
  return line;
}

std::string TableLine(const Work& work, const Figure& figure) {
  std::string limit = figure.limits.empty() ? "" : Short(Median(figure.limits)) + " " + work.limit->name;
  std::string ratio = figure.limits.empty() ? "" : Short(Median(figure.Ratios()));
  std::string target = TargetText(work);
  if (std::optional<bool> reached = Reached(work, figure)) target += *reached ? "  reached" : "  MISSED";
  char line[512];
  std::snprintf(line, sizeof(line), "%-33s %9s %-8s %9s %9s %3zu  %-38s %6s  %-24s%s", work.name.c_str(),
                Short(Median(figure.samples)).c_str(), work.unit.c_str(), Short(Min(figure.samples)).c_str(),
                Short(Max(figure.samples)).c_str(), figure.samples.size(), limit.c_str(), ratio.c_str(), target.c_str(),
                figure.clean() ? "" : "  not clean");
  return line;
}

bool Meter::Wants(std::string_view name) const {
  return options_.only.empty() || std::any_of(options_.only.begin(), options_.only.end(),
                                              [&](const std::string& prefix) { return name.rfind(prefix, 0) == 0; });
}

void Meter::Run(const std::vector<Work>& works, const std::function<absl::Status()>& prepare) {
  std::vector<const Work*> wanted;
  for (const Work& work : works) {
    if (Wants(work.name)) wanted.push_back(&work);
  }
  if (wanted.empty()) return;
  absl::Status prepared = prepare();
  for (const Work* work : wanted) {
    absl::StatusOr<Figure> figure = prepared.ok() ? Measure(*work) : absl::StatusOr<Figure>(prepared);
    if (!figure.ok()) {
      Fail(*work, figure.status());
      continue;
    }
    if (!options_.json && measured_ == 0) std::cout << TableHeading() << "\n";
    std::cout << (options_.json ? JsonLine(*work, *figure) : TableLine(*work, *figure)) << std::endl;
    ++measured_;
    if (!figure->clean()) ++not_clean_;
  }
}

absl::StatusOr<Figure> Meter::Measure(const Work& work) const {
  int repeats = std::min(options_.repeats, work.repeats_max);
  absl::Duration budget = options_.seconds / repeats;
  // The first time touches memory, makes connections and fills caches, and is not counted; works that are repeated less
  // often than others take so long that it does not show.
  if (work.repeats_max > options_.repeats) TROUPE_RETURN_IF_ERROR(work.sample(budget / 4).status());
  Figure figure;
  ProcessorUse use;
  for (int i = 0; i < repeats; ++i) {
    if (work.limit) {
      TROUPE_ASSIGN_OR_RETURN(double limit, work.limit->sample(budget));
      figure.limits.push_back(limit);
    }
    TROUPE_ASSIGN_OR_RETURN(double sample, work.sample(budget));
    figure.samples.push_back(sample);
  }
  figure.others = use.OthersShare();
  return figure;
}

void Meter::Fail(const Work& work, const absl::Status& status) {
  ++failed_;
  std::cerr << "troupe: " << work.name << " could not be measured: " << StatusText(status) << std::endl;
}

absl::StatusOr<double> MicrosecondsEach(absl::Duration budget, const std::function<absl::Status()>& once) {
  int64_t count = 0;
  Monotonic begin = MonotonicNow(), now = begin;
  for (Monotonic end = begin + budget; now < end || count == 0; now = MonotonicNow()) {
    TROUPE_RETURN_IF_ERROR(once());
    ++count;
  }
  return absl::ToDoubleMicroseconds(now - begin) / static_cast<double>(count);
}

absl::StatusOr<double> RateOf(absl::Duration budget, const std::function<absl::StatusOr<int64_t>()>& batch) {
  int64_t count = 0;
  Monotonic begin = MonotonicNow(), now = begin;
  for (Monotonic end = begin + budget; now < end || count == 0; now = MonotonicNow()) {
    TROUPE_ASSIGN_OR_RETURN(int64_t done, batch());
    count += done;
  }
  return static_cast<double>(count) / absl::ToDoubleSeconds(now - begin);
}

}  // namespace troupe::bench
