// SPDX-License-Identifier: Apache-2.0
#include "actors/reward/row_scoring.h"

#include <utility>

#include "actors/pipeline/job_model.h"
#include "actors/pipeline/shard_channels.h"
#include "runtime/base/shown_text.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

// Of what comes back with a score, so that a call's scores fit in one message: of a fault's text, and of the texts of a
// sample.
constexpr size_t kFaultTextBytesMax = 500;
constexpr size_t kSampleTextBytesMax = 64 << 10;

const char* NameOf(RewardFault fault) {
  return fault == RewardFault::kNone ? "" : fault == RewardFault::kAnswer ? "answer" : "program";
}

}  // namespace

RowScoring::RowScoring(ActorContext& context, std::unique_ptr<Tokenizer> tokenizer)
    : context_(context), tokenizer_(std::move(tokenizer)) {}
RowScoring::~RowScoring() = default;

absl::StatusOr<std::unique_ptr<RowScoring>> RowScoring::Create(ActorContext& context) {
  TROUPE_ASSIGN_OR_RETURN(JobConfig config, JobOf(context));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(config.model.path));
  return std::unique_ptr<RowScoring>(new RowScoring(context, std::move(tokenizer)));
}

absl::StatusOr<v1::ScoreResponse> RowScoring::Score(const v1::ScoreRequest& request, RewardScorer& scorer) {
  TROUPE_ASSIGN_OR_RETURN(
      std::vector<v1::Row> rows,
      FetchSources(request.sources(), {"prompt_ids", "response_ids", "answer", "extra"}, ShardChannelsOf(context_)));
  std::vector<RewardInput> inputs;
  for (const v1::Row& row : rows) inputs.push_back(InputOf(row));
  std::vector<RewardOutcome> outcomes = scorer.Score(inputs);
  TROUPE_RETURN_IF_ERROR(scorer.broken());
  v1::ScoreResponse response;
  for (size_t i = 0; i < rows.size(); ++i) {
    v1::RowScore* score = response.add_scores();
    score->set_row_id(inputs[i].id);
    score->set_score(outcomes[i].score);
    score->mutable_metrics()->insert(outcomes[i].metrics.begin(), outcomes[i].metrics.end());
    score->set_pred(std::move(outcomes[i].pred));
    score->set_fault(NameOf(outcomes[i].fault));
    score->set_fault_text(ShownText(outcomes[i].fault_text, kFaultTextBytesMax));
    if (static_cast<int32_t>(i) >= request.texts()) continue;
    score->set_prompt_text(ShownText(inputs[i].prompt, kSampleTextBytesMax));
    score->set_response_text(ShownText(inputs[i].response, kSampleTextBytesMax));
    score->set_answer(ShownText(inputs[i].answer, kSampleTextBytesMax));
  }
  return response;
}

RewardInput RowScoring::InputOf(const v1::Row& row) const {
  auto ids = [&](const char* column) {
    const auto& values = row.columns().at(column).int32s().values();
    return std::vector<int32_t>(values.begin(), values.end());
  };
  RewardInput input;
  input.id = row.row_id();
  input.prompt = tokenizer_->Decode(ids("prompt_ids"));
  input.response_ids = ids("response_ids");
  input.response = tokenizer_->Decode(input.response_ids, {.skip_special_tokens = true});
  input.answer = row.columns().at("answer").text();
  input.extra_json = row.columns().at("extra").text();
  return input;
}

}  // namespace troupe
