// SPDX-License-Identifier: Apache-2.0
#include "actors/model/packed/packed_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace troupe {

int64_t PackedTokens(const PackedGroup& group) {
  int64_t tokens = 0;
  for (const auto& response : group.responses)
    tokens += std::max<int64_t>(0, static_cast<int64_t>(response.size()) - 1);
  return tokens + static_cast<int64_t>(group.prompt.size());
}

namespace packed {
namespace {

absl::Status Check(const PackedGroup& group, size_t index, const ModelConfig& config) {
  if (group.prompt.empty()) return absl::InvalidArgumentError(absl::StrCat("group ", index, " has an empty prompt"));
  const auto in_vocabulary = [&](int32_t token) { return token >= 0 && token < config.vocab_size; };
  const auto outside = [&](absl::Span<const int32_t> tokens) {
    return std::find_if_not(tokens.begin(), tokens.end(), in_vocabulary) != tokens.end();
  };
  bool bad = outside(group.prompt);
  size_t longest = 0;
  for (const auto& response : group.responses) {
    bad = bad || outside(response);
    longest = std::max(longest, response.size());
  }
  if (bad) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", index, " holds a token outside the vocabulary of ", config.vocab_size));
  }
  // Dynamic angles depend on the length of the whole row, so that a prompt is shared only where they do not.
  const bool stretched = config.rope_scaling.type == RopeType::kDynamic && group.responses.size() <= 1;
  if (static_cast<int64_t>(group.prompt.size() + longest) > config.max_position_embeddings && !stretched) {
    return absl::InvalidArgumentError(absl::StrCat("group ", index, " has a row of ", group.prompt.size() + longest,
                                                   " tokens; the model's context is ", config.max_position_embeddings));
  }
  return absl::OkStatus();
}

Segment Append(absl::Span<const int32_t> tokens, int64_t first_position, PackedLayout& layout) {
  const Segment segment{.begin = layout.rows(), .length = static_cast<int64_t>(tokens.size())};
  for (size_t i = 0; i < tokens.size(); ++i) {
    layout.tokens.push_back(tokens[i]);
    layout.positions.push_back(static_cast<int32_t>(first_position + static_cast<int64_t>(i)));
  }
  return segment;
}

void AddGroup(const PackedGroup& group, PackedLayout& layout) {
  const int64_t prompt_length = static_cast<int64_t>(group.prompt.size());
  GroupRows rows{.prompt = Append(group.prompt, 0, layout), .responses = {}};
  ScoredRow first{.row = rows.prompt.begin + prompt_length - 1,
                  .targets_begin = static_cast<int64_t>(layout.targets.size()),
                  .targets_end = 0};
  int64_t output = layout.outputs;
  for (const auto& response : group.responses) {
    if (!response.empty()) layout.targets.push_back({response[0], output});
    output += static_cast<int64_t>(response.size());
  }
  first.targets_end = static_cast<int64_t>(layout.targets.size());
  if (first.targets_end > first.targets_begin) layout.scored.push_back(first);

  for (const auto& response : group.responses) {
    const size_t inputs = response.empty() ? 0 : response.size() - 1;
    rows.responses.push_back(Append(response.subspan(0, inputs), prompt_length, layout));
    for (size_t i = 0; i < inputs; ++i) {
      const int64_t target = static_cast<int64_t>(layout.targets.size());
      layout.targets.push_back({response[i + 1], layout.outputs + static_cast<int64_t>(i) + 1});
      layout.scored.push_back({rows.responses.back().begin + static_cast<int64_t>(i), target, target + 1});
    }
    layout.outputs += static_cast<int64_t>(response.size());
  }
  layout.groups.push_back(std::move(rows));
}

}  // namespace

absl::StatusOr<PackedLayout> LayOut(absl::Span<const PackedGroup> groups, const ModelConfig& config) {
  PackedLayout layout;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (absl::Status status = Check(groups[i], i, config); !status.ok()) return status;
    AddGroup(groups[i], layout);
  }
  return layout;
}

}  // namespace packed
}  // namespace troupe
