// SPDX-License-Identifier: Apache-2.0
#include "actors/rollout/generate_call.h"

#include <utility>

#include "runtime/env/clock.h"

namespace troupe::rollout {
namespace {

// Validation draws other numbers than training, with the same seed.
constexpr uint64_t kValidationEpoch = uint64_t{1} << 62;

template <typename Values, typename List>
void Copy(const Values& values, List* list) {
  list->mutable_values()->Add(values.begin(), values.end());
}

}  // namespace

absl::StatusOr<std::shared_ptr<GenerateCall>> GenerateCall::Make(const GenerateSetting& setting,
                                                                 const v1::GenerateRequest& request,
                                                                 Promise<v1::GenerateResponse> promise) {
  std::shared_ptr<GenerateCall> call(new GenerateCall(setting, std::move(promise)));
  call->began_ = MonotonicNow();
  for (const v1::PromptTask& task : request.prompts()) {
    const PromptSet& set = task.validation() ? setting.prompts->val : setting.prompts->train;
    const Prompt* prompt = set.Find(task.prompt_id());
    if (prompt == nullptr) return absl::NotFoundError("the data set has no prompt " + std::to_string(task.prompt_id()));
    Group& group = call->groups_.emplace_back();
    group.task = task;
    group.prompt = prompt;
    bool made = std::ssize(setting.shard->GroupRows(task.group_id())) >= task.n();
    if (!made) call->AddRequests(call->groups_.size() - 1, task);
  }
  return call;
}

void GenerateCall::AddRequests(size_t group, const v1::PromptTask& task) {
  const RolloutSection& rollout = setting_.config->rollout;
  groups_[group].left = task.n();
  for (int32_t sample = 0; sample < task.n(); ++sample) {
    GenerationRequest& request = requests_.emplace_back();
    request.prompt_ids = groups_[group].prompt->ids;
    request.seed = static_cast<uint64_t>(rollout.seed);
    request.prompt_id = task.prompt_id();
    request.epoch = task.validation() ? kValidationEpoch : task.epoch();
    request.sample_index = sample;
    request.params.temperature = rollout.temperature;
    request.params.top_k = rollout.top_k;
    request.params.top_p = rollout.top_p;
    request.params.min_p = rollout.min_p;
    request.params.max_new_tokens = rollout.response_length;
    request.params.stop_token_ids = setting_.stop_token_ids;
    request.params.ignore_eos = rollout.ignore_eos;
    request.params.greedy = task.greedy();
    places_.emplace_back(group, sample);
  }
}

void GenerateCall::Done(size_t index, Generation generation) {
  auto [group_index, sample] = places_[index];
  Group& group = groups_[group_index];
  if (generation.finish_reason == FinishReason::kError) {
    std::fprintf(stderr, "sample %d of group %s was not generated: %s\n", sample, group.task.group_id().c_str(),
                 std::string(generation.error.message()).c_str());
  } else {
    group.rows.push_back(MakeRow(group, sample, generation));
  }
  stats_.set_response_tokens(stats_.response_tokens() + std::ssize(generation.tokens));
  if (--group.left > 0) return;
  stats_.set_prompt_tokens(stats_.prompt_tokens() + std::ssize(group.prompt->ids));
  absl::Status stored = setting_.shard->Append(group.rows);
  if (!stored.ok() && failed_.ok()) failed_ = stored;
  group.rows.clear();
}

v1::Row GenerateCall::MakeRow(const Group& group, int32_t sample, const Generation& generation) const {
  v1::Row row;
  row.set_row_id(group.task.group_id() + "-" + std::to_string(sample));
  row.set_group_id(group.task.group_id());
  row.set_prompt_id(group.task.prompt_id());
  row.set_epoch(group.task.epoch());
  row.set_sample_index(sample);
  row.set_finish_reason(std::string(NameOf(generation.finish_reason)));
  for (const VersionSpan& span : generation.spans) {
    v1::VersionSpan* proto = row.add_spans();
    proto->mutable_version()->set_attempt(span.attempt);
    proto->mutable_version()->set_step(span.step);
    proto->set_begin(span.begin);
    proto->set_end(span.end);
  }
  auto& columns = *row.mutable_columns();
  Copy(group.prompt->ids, columns["prompt_ids"].mutable_int32s());
  Copy(generation.tokens, columns["response_ids"].mutable_int32s());
  for (double logprob : generation.rollout_logprobs) {
    columns["rollout_logprobs"].mutable_floats()->add_values(static_cast<float>(logprob));
  }
  columns["answer"].set_text(group.prompt->answer);
  columns["extra"].set_text(group.prompt->extra_json);
  return row;
}

void GenerateCall::AllDone(const absl::Status& status) {
  if (!status.ok() || !failed_.ok()) return promise_.Set(status.ok() ? failed_ : status);
  v1::GenerateResponse response;
  for (const Group& group : groups_) {
    for (v1::RowMeta& meta : setting_.shard->GroupRows(group.task.group_id())) *response.add_rows() = std::move(meta);
  }
  stats_.set_seconds(absl::ToDoubleSeconds(MonotonicNow() - began_));
  *response.mutable_stats() = stats_;
  promise_.Set(std::move(response));
}

}  // namespace troupe::rollout
