// SPDX-License-Identifier: Apache-2.0
// Algorithms by name: what one declares about itself, its options, and the table it registers in.
//
// A new estimator, loss or KL is one .cc file in a library with `alwayslink`, which registers itself:
//   const bool registered = AdvantageRegistry::Get().Register({.name = "grpo", ...}, &Grpo);
// No LibTorch here, so that names, formulas and defaults can be listed cheaply.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

using OptionValue = std::variant<bool, double, std::string>;

struct OptionSpec {
  std::string name;           // as in the job file, without its section
  OptionValue default_value;  // also fixes the type
  std::string meaning;
};

// What an algorithm tells about itself; printed by `troupe explain`.
struct AlgorithmSpec {
  std::string name;
  std::string formula;
  std::string source;
  std::vector<OptionSpec> options;
  std::vector<std::string> needs = {};  // inputs beside those that every one of its kind gets
};

// The values of one algorithm's options: its defaults, with what was given in their place.
class OptionValues {
 public:
  // InvalidArgument for a name that the spec does not have (with the nearest one) or a value of another type.
  static absl::StatusOr<OptionValues> Create(const AlgorithmSpec& spec,
                                             const std::map<std::string, OptionValue>& given);
  // The same, but names that the spec does not have are for other algorithms and are passed over.
  static absl::StatusOr<OptionValues> Pick(const AlgorithmSpec& spec, const std::map<std::string, OptionValue>& given);

  // The option must be in the spec, with this type.
  double Number(std::string_view name) const;
  bool Flag(std::string_view name) const;
  const std::string& Text(std::string_view name) const;

 private:
  absl::Status Set(const std::string& name, const OptionValue& value);

  std::map<std::string, OptionValue, std::less<>> values_;
};

// "unknown adv_estimator "grop"; did you mean "grpo"? Known: ..."
absl::Status UnknownName(std::string_view kind, std::string_view name, const std::vector<std::string>& known);

// One table for each kind of function. Filled by static initialisers, read-only afterwards.
// Tag: a type with `static constexpr std::string_view kKind`, the option that chooses from this table.
template <class Tag, class Function>
class AlgorithmRegistry {
 public:
  struct Entry {
    AlgorithmSpec spec;
    Function function;
  };

  static AlgorithmRegistry& Get() {
    static AlgorithmRegistry* registry = new AlgorithmRegistry;  // never destroyed: static initialisers use it
    return *registry;
  }

  bool Register(AlgorithmSpec spec, Function function) {
    std::string name = spec.name;
    return entries_.emplace(std::move(name), Entry{std::move(spec), std::move(function)}).second;
  }

  absl::StatusOr<const Entry*> Find(std::string_view name) const {
    if (auto found = entries_.find(name); found != entries_.end()) return &found->second;
    return UnknownName(Tag::kKind, name, Names());
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace troupe
