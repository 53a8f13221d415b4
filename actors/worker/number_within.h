// SPDX-License-Identifier: Apache-2.0
// A check of a number on a command line, told in words; CLI11's own range checks speak of 1.8e308.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <string>

namespace troupe {

inline constexpr double kWholeMax = 1LL << 53;  // What a double holds exactly; as `max` it is not told.

inline CLI::Validator NumberWithin(double min, double max, bool whole) {
  auto check = [=](const std::string& text) -> std::string {
    double value = 0;
    bool fits = CLI::detail::lexical_cast(text, value) && value >= min && value <= max;
    if (fits && (!whole || std::floor(value) == value)) return "";
    char limits[64];
    std::snprintf(limits, sizeof(limits), max < kWholeMax ? "from %g to %g" : "of at least %g", min, max);
    return std::string("expected a ") + (whole ? "whole " : "") + "number " + limits + ", got '" + text + "'";
  };
  return CLI::Validator(check, "", "");
}

}  // namespace troupe
