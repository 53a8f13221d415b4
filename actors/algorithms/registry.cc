// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/nearest.h"

namespace troupe {
namespace {

constexpr const char* kTypeNames[] = {"true or false", "a number", "a text"};

}  // namespace

absl::Status UnknownName(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  std::string message = absl::StrCat("unknown ", std::string(kind), " \"", std::string(name), "\"");
  const std::string nearest = NearestOf(name, known);
  if (!nearest.empty()) absl::StrAppend(&message, "; did you mean \"", nearest, "\"?");
  absl::StrAppend(&message, nearest.empty() ? "; known: " : " Known: ", absl::StrJoin(known, ", "));
  return absl::InvalidArgumentError(message);
}

absl::StatusOr<OptionValues> OptionValues::Create(const AlgorithmSpec& spec,
                                                  const std::map<std::string, OptionValue>& given) {
  absl::StatusOr<OptionValues> values = Pick(spec, given);
  if (!values.ok()) return values;
  for (const auto& [name, value] : given) {
    if (values->values_.count(name) > 0) continue;
    std::vector<std::string> known;
    for (const OptionSpec& option : spec.options) known.push_back(option.name);
    return UnknownName(absl::StrCat("option of ", spec.name), name, known);
  }
  return values;
}

absl::StatusOr<OptionValues> OptionValues::Pick(const AlgorithmSpec& spec,
                                                const std::map<std::string, OptionValue>& given) {
  OptionValues values;
  for (const OptionSpec& option : spec.options) values.values_[option.name] = option.default_value;
  for (const auto& [name, value] : given) {
    if (absl::Status set = values.Set(name, value); !set.ok()) return set;
  }
  return values;
}

absl::Status OptionValues::Set(const std::string& name, const OptionValue& value) {
  auto found = values_.find(name);
  if (found == values_.end()) return absl::OkStatus();
  if (found->second.index() != value.index()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must be ", kTypeNames[found->second.index()]));
  }
  found->second = value;
  return absl::OkStatus();
}

double OptionValues::Number(std::string_view name) const { return std::get<double>(values_.find(name)->second); }
bool OptionValues::Flag(std::string_view name) const { return std::get<bool>(values_.find(name)->second); }
const std::string& OptionValues::Text(std::string_view name) const {
  return std::get<std::string>(values_.find(name)->second);
}

}  // namespace troupe
