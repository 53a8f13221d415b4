// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/batch_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

bool Outside(absl::Span<const int32_t> tokens, int64_t vocab_size) {
  return std::any_of(tokens.begin(), tokens.end(), [&](int32_t token) { return token < 0 || token >= vocab_size; });
}

// Under the mask; what stands outside it does not matter.
bool Finite(const TrainSample& sample, absl::Span<const float> column) {
  for (size_t i = 0; i < column.size(); ++i) {
    const bool counts = sample.response_mask.empty() || sample.response_mask[i] != 0;
    if (counts && !std::isfinite(column[i])) return false;
  }
  return true;
}

bool HasBadNumbers(const TrainSample& sample) {
  return !std::isfinite(sample.reward) || !Finite(sample, sample.rollout_logprobs) ||
         !Finite(sample, sample.ref_logprobs);
}

absl::Status CheckColumn(const TrainSample& sample, const char* name, size_t length, bool required) {
  if (length == sample.response_ids.size() || (length == 0 && !required)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("row ", sample.row_id, ": ", name, " has ", length, " values for ",
                                                 sample.response_ids.size(), " response tokens"));
}

absl::Status CheckRow(const TrainGroup& group, const TrainSample& sample, const ModelConfig& config,
                      const TrainerOptions& options) {
  if (Outside(sample.response_ids, config.vocab_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("row ", sample.row_id, " holds a token outside the vocabulary of ", config.vocab_size));
  }
  const int64_t tokens = static_cast<int64_t>(group.prompt_ids.size() + sample.response_ids.size());
  const int64_t most = std::min(config.max_position_embeddings, options.ppo_max_token_len);
  if (tokens > most) {
    return absl::InvalidArgumentError(absl::StrCat("row ", sample.row_id, " has ", tokens, " tokens; at most ", most,
                                                   " fit (the model's context and actor.ppo_max_token_len)"));
  }
  TROUPE_RETURN_IF_ERROR(CheckColumn(sample, "response_mask", sample.response_mask.size(), false));
  TROUPE_RETURN_IF_ERROR(
      CheckColumn(sample, "rollout_logprobs", sample.rollout_logprobs.size(), NeedsRolloutLogprobs(options)));
  return CheckColumn(sample, "ref_logprobs", sample.ref_logprobs.size(), NeedsRefLogprobs(options));
}

absl::Status CheckGroup(const TrainGroup& group, const ModelConfig& config, const TrainerOptions& options) {
  if (group.prompt_ids.empty())
    return absl::InvalidArgumentError(absl::StrCat("group ", group.group_id, " has an empty prompt"));
  if (Outside(group.prompt_ids, config.vocab_size)) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt of group ", group.group_id,
                                                   " holds a token outside the vocabulary of ", config.vocab_size));
  }
  for (const TrainSample& sample : group.samples) TROUPE_RETURN_IF_ERROR(CheckRow(group, sample, config, options));
  return absl::OkStatus();
}

int64_t TrainedTokens(const TrainSample& sample) {
  if (sample.response_mask.empty()) return static_cast<int64_t>(sample.response_ids.size());
  return std::count_if(sample.response_mask.begin(), sample.response_mask.end(), [](uint8_t m) { return m != 0; });
}

void AddGroup(const TrainGroup& group, BatchRows& batch) {
  std::vector<const TrainSample*> kept;
  bool dropped = false;
  for (const TrainSample& sample : group.samples) {
    if (HasBadNumbers(sample)) {
      batch.dropped_rows.push_back(sample.row_id);
      dropped = true;
    } else if (sample.response_ids.empty()) {
      ++batch.empty_rows;
    } else {
      kept.push_back(&sample);
    }
  }
  if (dropped && kept.size() < 2) {  // nothing left to compare with
    for (const TrainSample* sample : kept) batch.dropped_rows.push_back(sample->row_id);
    kept.clear();
  }
  if (kept.empty()) return;
  BatchRows::Group rows{.source = &group, .first_row = batch.rows.size(), .last_row = 0};
  for (const TrainSample* sample : kept) {
    const int64_t length = static_cast<int64_t>(sample->response_ids.size());
    batch.rows.push_back({sample, batch.groups.size(), batch.tokens, length, TrainedTokens(*sample)});
    batch.tokens += length;
  }
  rows.last_row = batch.rows.size();
  batch.groups.push_back(rows);
}

}  // namespace

bool NeedsRolloutLogprobs(const TrainerOptions& options) {
  return options.rollout_is == "token" || (options.rollout_is == "auto" && options.max_staleness >= 1);
}

bool NeedsRefLogprobs(const TrainerOptions& options) {
  return (options.use_kl_loss && options.kl_loss_coef != 0) ||
         (options.use_kl_in_reward && options.kl_ctrl.kl_coef != 0);
}

absl::StatusOr<BatchRows> SelectRows(const TrainBatch& batch, const ModelConfig& config,
                                     const TrainerOptions& options) {
  BatchRows rows;
  for (const TrainGroup& group : batch.groups) {
    TROUPE_RETURN_IF_ERROR(CheckGroup(group, config, options));
    AddGroup(group, rows);
  }
  return rows;
}

}  // namespace troupe
