// SPDX-License-Identifier: Apache-2.0

#include "actors/model/weight_layout.h"

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace troupe {
namespace {

constexpr int64_t kAlignmentBytes = 64;        // a cache line, and the widest vector
constexpr int64_t kTotalBytesMax = 1LL << 46;  // far beyond any machine; keeps the sums from overflowing

// Parameters that one matrix product serves. The first of a group pulls the others to its side.
const std::vector<std::vector<std::string_view>>& Neighbours() {
  static const auto& groups = *new std::vector<std::vector<std::string_view>>{
      {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"},
      {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"},
      {"mlp.gate_proj.weight", "mlp.up_proj.weight"},
      {"mlp.gate_proj.bias", "mlp.up_proj.bias"},
  };
  return groups;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// The names to be laid side by side when `name` comes up; only itself for most.
std::vector<std::string> GroupOf(const std::string& name) {
  for (const std::vector<std::string_view>& group : Neighbours()) {
    if (!EndsWith(name, group.front())) continue;
    const std::string_view layer = std::string_view(name).substr(0, name.size() - group.front().size());
    std::vector<std::string> names;
    for (std::string_view member : group) names.push_back(std::string(layer).append(member));
    return names;
  }
  return {name};
}

absl::StatusOr<int64_t> SizeBytes(const ParameterShape& parameter, ElementType type) {
  int64_t size_bytes = ElementBytes(type);
  for (int64_t size : parameter.shape) {
    if (size <= 0 || size > kTotalBytesMax / size_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", parameter.name, " has an impossible dimension ",
                                                     size, "; check the model's config"));
    }
    size_bytes *= size;
  }
  return size_bytes;
}

int64_t AlignUp(int64_t offset) { return (offset + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes; }

}  // namespace

int64_t WeightEntry::elements() const { return size_bytes / ElementBytes(type); }

const WeightEntry* WeightLayout::Find(std::string_view name) const {
  for (const WeightEntry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::StatusOr<WeightLayout> LayoutOf(const ModelConfig& config, ElementType type) {
  std::map<std::string, ParameterShape> left;
  const std::vector<ParameterShape> shapes = ParameterShapes(config);
  for (const ParameterShape& parameter : shapes) left.emplace(parameter.name, parameter);

  WeightLayout layout;
  int64_t offset = 0;
  for (const ParameterShape& parameter : shapes) {
    if (!left.contains(parameter.name)) continue;  // laid beside an earlier one
    offset = AlignUp(offset);
    for (const std::string& name : GroupOf(parameter.name)) {
      const auto found = left.find(name);
      if (found == left.end()) continue;
      absl::StatusOr<int64_t> size_bytes = SizeBytes(found->second, type);
      if (!size_bytes.ok()) return size_bytes.status();
      if (offset > kTotalBytesMax - *size_bytes) return absl::InvalidArgumentError("the model is impossibly large");
      layout.entries.push_back({name, type, found->second.shape, offset, *size_bytes});
      offset += *size_bytes;
      left.erase(found);
    }
  }
  layout.total_bytes = AlignUp(offset);
  return layout;
}

}  // namespace troupe
