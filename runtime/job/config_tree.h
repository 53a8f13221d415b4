// SPDX-License-Identifier: Apache-2.0
// ConfigNode: a job file as a neutral tree in which every value knows where it came from, so that an error can name
// file, line and key. Read from YAML (and so from JSON); overridden by `path.to.field=value`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

struct ConfigNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string scalar;                                   // kScalar; for a tree under a JSON value, its text
  bool quoted = false;                                  // kScalar: written in quotes, so it is a string
  std::vector<ConfigNode> list;                         // kList
  std::vector<std::pair<std::string, ConfigNode>> map;  // kMap, in the order written
  std::string source;                                   // "job.yaml:12" or "command line"

  // The value under `key` of a map, or nullptr.
  const ConfigNode* Find(std::string_view key) const;
  ConfigNode* Find(std::string_view key);
  // The tree as JSON text: numbers, booleans and nulls stay what they are, anything else is a string.
  std::string ToJson() const;
};

// Limits of what is read, so that a hostile file cannot take the memory: 4 MiB of text, 64 levels, 100,000 nodes.
inline constexpr size_t kConfigBytesMax = 4 << 20;
inline constexpr int kConfigDepthMax = 64;
inline constexpr int kConfigNodesMax = 100000;

// Parses YAML. `name` stands in errors and sources. Duplicate keys, aliases beyond the limits and a top level that is
// not a map are errors: "job.yaml:3: ...".
absl::StatusOr<ConfigNode> ParseYaml(std::string_view text, std::string_view name);

// Applies "a.b.c=value" (value is YAML: a number, a word, [a list], {a: map}). List elements are named by number.
absl::Status ApplyOverride(ConfigNode& root, std::string_view assignment);

}  // namespace troupe
