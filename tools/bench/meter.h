// SPDX-License-Identifier: Apache-2.0
// Meter: measures pieces of work, each several times in turn with what the machine itself can do for such work, and
// prints a line for each: the median, its spread, the limit, their ratio, the target, and how busy others kept the
// processors meanwhile. A figure is clean only when they did not. Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace troupe::bench {

// One figure, from a measurement that takes about `budget` where it can choose.
using Sampler = std::function<absl::StatusOr<double>(absl::Duration budget)>;

// What bounds the work on this machine, in the same unit.
struct Limit {
  std::string name;
  Sampler sample;
};

struct Work {
  std::string name;  // [A-Za-z0-9_]+; the programs of tools/peers/ call the same work the same.
  std::string unit;
  bool more_is_better = true;
  Sampler sample;
  std::optional<Limit> limit;
  std::optional<double> target;        // At least (or at most) that, in `unit`.
  std::optional<double> target_ratio;  // At least (or at most) that times the limit.
  int repeats_max = 1000;              // Of work that takes long each time.
};

struct MeterOptions {
  int repeats = 9;
  absl::Duration seconds = absl::Seconds(1);  // Of one figure, all its repeats together; its limit takes as long again.
  std::vector<std::string> only;              // Work whose name begins with one of these; empty: all.
  bool json = false;                          // One object a line.
};

// What was measured of one piece of work.
struct Figure {
  std::vector<double> samples;
  std::vector<double> limits;  // limits[i] was measured just before samples[i].
  double others = 0;           // Share of all processors that other processes used meanwhile, 0 to 1.

  // Of samples[i] / limits[i].
  std::vector<double> Ratios() const;
  static constexpr double kOthersMax = 0.05;
  bool clean() const { return others <= kOthersMax; }
};

double Median(std::vector<double> values);
// Whether the medians reach the targets; nullopt: there is none.
std::optional<bool> Reached(const Work& work, const Figure& figure);
// The line of `--json`, without its end.
std::string JsonLine(const Work& work, const Figure& figure);
// The line of the table, and the one above all of them.
std::string TableLine(const Work& work, const Figure& figure);
std::string TableHeading();

class Meter {
 public:
  explicit Meter(MeterOptions options) : options_(std::move(options)) {}

  // Measures those of `works` that are wanted and prints their lines on stdout. `prepare` runs first, if any is; what
  // it returns is their failure.
  void Run(const std::vector<Work>& works, const std::function<absl::Status()>& prepare);
  bool Wants(std::string_view name) const;

  int measured() const { return measured_; }
  int failed() const { return failed_; }
  int not_clean() const { return not_clean_; }

 private:
  absl::StatusOr<Figure> Measure(const Work& work) const;
  void Fail(const Work& work, const absl::Status& status);

  const MeterOptions options_;
  int measured_ = 0, failed_ = 0, not_clean_ = 0;
};

// The mean time of `once` in microseconds, over as many as fit into `budget`. An error of one ends it.
absl::StatusOr<double> MicrosecondsEach(absl::Duration budget, const std::function<absl::Status()>& once);
// How often `batch` did what it counts, a second.
absl::StatusOr<double> RateOf(absl::Duration budget, const std::function<absl::StatusOr<int64_t>()>& batch);

}  // namespace troupe::bench
