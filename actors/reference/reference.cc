// SPDX-License-Identifier: Apache-2.0
#include "actors/reference/reference.h"

#include <algorithm>

#include "actors/model/intra_op.h"
#include "actors/model/packed/packed_logprobs.h"
#include "actors/model/weights.h"
#include "actors/pipeline/job_model.h"
#include "actors/pipeline/shard_channels.h"
#include "runtime/base/status.h"
#include "runtime/stream/row_store.h"

namespace troupe {
namespace {

constexpr absl::Duration kPutTimeout = absl::Seconds(60);

absl::Span<const int32_t> TokensOf(const v1::Row& row, const char* column) {
  const auto& values = row.columns().at(column).int32s().values();
  return {values.data(), static_cast<size_t>(values.size())};
}

}  // namespace

class Reference::Impl {
 public:
  absl::Status Start(ActorContext& context) {
    context_ = &context;
    SetIntraOpThreads(ThreadsOf(context));
    TROUPE_ASSIGN_OR_RETURN(config_, JobOf(context));
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<ModelSource> source, ModelSource::Open(config_.model.path));
    TROUPE_ASSIGN_OR_RETURN(ModelWeights weights, LoadWeights(*source));
    TROUPE_ASSIGN_OR_RETURN(model_, PackedModel::Create(source->config(), weights));
    return absl::OkStatus();
  }

  absl::StatusOr<v1::LogProbsResponse> AddLogProbs(const v1::LogProbsRequest& request) {
    v1::LogProbsResponse response;
    for (const v1::RowSource& source : request.sources()) {
      google::protobuf::RepeatedPtrField<v1::RowSource> one;
      *one.Add() = source;
      TROUPE_ASSIGN_OR_RETURN(std::vector<v1::Row> rows,
                              FetchSources(one, {"prompt_ids", "response_ids"}, ShardChannelsOf(*context_)));
      // Samples of a group lie side by side, so that their prompt is computed once.
      std::stable_sort(rows.begin(), rows.end(),
                       [](const v1::Row& a, const v1::Row& b) { return a.group_id() < b.group_id(); });
      TROUPE_ASSIGN_OR_RETURN(v1::PutColumnRequest column, Score(rows));
      *column.mutable_writer() = context_->self().ToProto();
      TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, ChannelToReplica(*context_, source.shard()));
      TROUPE_RETURN_IF_ERROR(PutColumn(channel, column, kPutTimeout));
      for (const v1::ColumnValue& value : column.values()) {
        response.set_tokens(response.tokens() + value.floats().values_size());
      }
    }
    return response;
  }

 private:
  // The column for rows that are sorted by group; group by group within the token budget of the trainer's
  // micro-batches.
  absl::StatusOr<v1::PutColumnRequest> Score(const std::vector<v1::Row>& rows) {
    v1::PutColumnRequest column;
    column.set_column("ref_logprobs");
    PackedOptions options;
    options.temperature = config_.rollout.temperature;
    for (size_t begin = 0; begin < rows.size();) {
      std::vector<PackedGroup> groups;
      int64_t tokens = 0;
      size_t end = begin;
      while (end < rows.size()) {
        PackedGroup group;
        group.prompt = TokensOf(rows[end], "prompt_ids");
        size_t next = end;
        for (; next < rows.size() && rows[next].group_id() == rows[end].group_id(); ++next) {
          group.responses.push_back(TokensOf(rows[next], "response_ids"));
        }
        if (!groups.empty() && tokens + PackedTokens(group) > config_.actor.ppo_max_token_len) break;
        tokens += PackedTokens(group);
        groups.push_back(std::move(group));
        end = next;
      }
      TROUPE_ASSIGN_OR_RETURN(PackedScores scores, model_->Score(groups, options));
      auto logprob = scores.logprobs.begin();
      for (; begin < end; ++begin) {
        auto length = std::ssize(TokensOf(rows[begin], "response_ids"));
        column.add_row_ids(rows[begin].row_id());
        column.add_values()->mutable_floats()->mutable_values()->Add(logprob, logprob + length);
        logprob += length;
      }
    }
    return column;
  }

  ActorContext* context_ = nullptr;
  JobConfig config_;
  std::unique_ptr<PackedModel> model_;
};

Reference::Reference() : impl_(std::make_unique<Impl>()) {}
Reference::~Reference() = default;
absl::Status Reference::OnStart(ActorContext& context) { return impl_->Start(context); }
absl::StatusOr<v1::LogProbsResponse> Reference::AddLogProbs(const v1::LogProbsRequest& request) {
  return impl_->AddLogProbs(request);
}

TROUPE_ACTOR_REGISTER(Reference, TROUPE_INIT());

}  // namespace troupe
