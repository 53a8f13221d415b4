// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/engine.h"

#include <map>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/model/intra_op.h"
#include "actors/model/llama/kv_cache.h"
#include "actors/model/llama/llama_inference.h"
#include "actors/rollout/engine/batch_scheduler.h"
#include "actors/rollout/engine/request_check.h"
#include "actors/rollout/engine/response.h"
#include "kernels/sampling/sampling.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"

namespace troupe::rollout {
namespace {

absl::Status CheckOptions(const EngineOptions& options) {
  const auto at_least_one = [](const char* name, int64_t value) {
    return value >= 1 ? absl::OkStatus()
                      : absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it must be at least 1"));
  };
  TROUPE_RETURN_IF_ERROR(at_least_one("max_batch_tokens", options.max_batch_tokens));
  TROUPE_RETURN_IF_ERROR(at_least_one("max_running", options.max_running));
  TROUPE_RETURN_IF_ERROR(at_least_one("max_waiting", options.max_waiting));
  TROUPE_RETURN_IF_ERROR(at_least_one("num_threads", options.num_threads));
  if (options.page_tokens < 8 || options.page_tokens % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_tokens is ", options.page_tokens, "; it must be a positive multiple of 8"));
  }
  return absl::OkStatus();
}

}  // namespace

class RolloutEngine::State {
 public:
  State(const ModelConfig& config, const EngineOptions& options, ModelVersion version,
        std::unique_ptr<LlamaInference> model, KvCache cache)
      : config_(config),
        options_(options),
        version_(version),
        model_(std::move(model)),
        cache_(std::move(cache)),
        scheduler_({.max_batch_tokens = options.max_batch_tokens,
                    .max_running = options.max_running,
                    .num_pages = cache_.num_pages(),
                    .page_tokens = options.page_tokens}),
        parallel_(IntraOpParallel(options.num_threads)) {}

  absl::Status Add(GenerationRequest request);
  absl::Status Abort(uint64_t request_id);
  absl::StatusOr<std::vector<Generation>> Step();
  absl::Status UpdateWeights(ModelWeights weights, ModelVersion version, OnUpdate on_update);

  ModelVersion version() const { return version_; }
  bool update_pending() const { return pending_.has_value(); }
  bool idle() const { return responses_.empty() && finished_.empty() && !pending_.has_value(); }
  EngineStats stats() const;

 private:
  struct PendingUpdate {
    ModelWeights weights;
    ModelVersion version;
  };

  // The rows of a plan, and who samples from which logits.
  ForwardBatch BatchOf(const StepPlan& plan);
  std::vector<uint64_t> SamplersOf(const StepPlan& plan, std::vector<int64_t>& logit_rows) const;
  std::vector<kernels::SampledToken> Sample(std::span<const float> logits, const std::vector<uint64_t>& samplers,
                                            const std::vector<int64_t>& logit_rows);
  void Accept(uint64_t request_id, const kernels::SampledToken& token);
  void Finish(uint64_t request_id, FinishReason reason, absl::Status error = absl::OkStatus());
  void CommitPending(OnUpdate on_update);

  ModelConfig config_;
  EngineOptions options_;
  ModelVersion version_;
  std::unique_ptr<LlamaInference> model_;
  KvCache cache_;
  BatchScheduler scheduler_;
  kernels::Parallel parallel_;
  std::unordered_map<uint64_t, Response> responses_;
  std::map<int64_t, Generation> finished_;  // by arrival; handed out by the next Step
  std::optional<PendingUpdate> pending_;
  int64_t next_arrival_ = 0;
  EngineStats stats_;
};

absl::Status RolloutEngine::State::Add(GenerationRequest request) {
  const RequestLimits limits{.vocab_size = config_.vocab_size,
                             .context_tokens = config_.max_position_embeddings,
                             .cache_tokens = cache_.num_pages() * options_.page_tokens};
  TROUPE_RETURN_IF_ERROR(CheckRequest(request, limits));
  if (responses_.contains(request.request_id)) {
    return absl::AlreadyExistsError(absl::StrCat("request ", request.request_id, " is in the engine already"));
  }
  if (scheduler_.waiting() >= options_.max_waiting) {
    return absl::ResourceExhaustedError(absl::StrCat(scheduler_.waiting(), " requests wait already (max_waiting)"));
  }
  std::vector<int32_t> tokens = request.prompt_ids;
  tokens.insert(tokens.end(), request.generated.begin(), request.generated.end());
  const uint64_t id = request.request_id;
  scheduler_.Add(id, std::move(tokens));
  Response& response = responses_[id];
  response.generation.request_id = id;
  response.request = std::move(request);
  response.arrival = next_arrival_++;
  return absl::OkStatus();
}

absl::Status RolloutEngine::State::Abort(uint64_t request_id) {
  if (!responses_.contains(request_id)) {
    return absl::NotFoundError(absl::StrCat("request ", request_id, " is not in the engine"));
  }
  Finish(request_id, FinishReason::kAbort);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Generation>> RolloutEngine::State::Step() {
  if (pending_.has_value() && scheduler_.running() == 0) CommitPending(OnUpdate::kFinish);
  const StepPlan plan = scheduler_.Schedule(version_, /*admit_waiting=*/!pending_.has_value());
  ++stats_.steps;
  stats_.preemptions += plan.preempted;
  stats_.cached_tokens += plan.cached_tokens;
  for (const PageCopy& copy : plan.copies) cache_.CopyPage(copy.from, copy.to);
  if (!plan.chunks.empty()) {
    ForwardBatch batch = BatchOf(plan);
    std::vector<int64_t> logit_rows;  // of each sampler
    const std::vector<uint64_t> samplers = SamplersOf(plan, logit_rows);
    const std::span<const float> logits = model_->Forward(batch, cache_);
    scheduler_.Computed(plan, version_);
    const std::vector<kernels::SampledToken> tokens = Sample(logits, samplers, logit_rows);
    for (size_t i = 0; i < samplers.size(); ++i) Accept(samplers[i], tokens[i]);
  }
  if (pending_.has_value() && scheduler_.running() == 0) CommitPending(OnUpdate::kFinish);
  std::vector<Generation> done;
  for (auto& [arrival, generation] : finished_) done.push_back(std::move(generation));
  finished_.clear();
  return done;
}

ForwardBatch RolloutEngine::State::BatchOf(const StepPlan& plan) {
  ForwardBatch batch;
  for (const ScheduledChunk& chunk : plan.chunks) {
    const int64_t row = static_cast<int64_t>(batch.tokens.size());
    const std::span<const int32_t> tokens = scheduler_.tokens(chunk.sequence).subspan(chunk.begin, chunk.count);
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
    for (int64_t i = 0; i < chunk.count; ++i) batch.positions.push_back(chunk.begin + i);
    batch.sequences.push_back({scheduler_.pages(chunk.sequence).data(), row, chunk.count, chunk.begin});
    if (chunk.completes) batch.logit_rows.push_back(row + chunk.count - 1);
    (chunk.count == 1 && responses_.at(chunk.sequence).generation.tokens.size() > 0 ? stats_.decode_tokens
                                                                                    : stats_.prefill_tokens) +=
        chunk.count;
  }
  return batch;
}

std::vector<uint64_t> RolloutEngine::State::SamplersOf(const StepPlan& plan, std::vector<int64_t>& logit_rows) const {
  std::vector<uint64_t> samplers;
  std::vector<int64_t> row_of_chunk(plan.chunks.size(), -1);
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    if (!plan.chunks[i].completes) continue;
    row_of_chunk[i] = static_cast<int64_t>(samplers.size());
    logit_rows.push_back(row_of_chunk[i]);
    samplers.push_back(plan.chunks[i].sequence);
  }
  for (const Follower& follower : plan.followers) {
    logit_rows.push_back(row_of_chunk[follower.leader]);
    samplers.push_back(follower.sequence);
  }
  return samplers;
}

std::vector<kernels::SampledToken> RolloutEngine::State::Sample(std::span<const float> logits,
                                                                const std::vector<uint64_t>& samplers,
                                                                const std::vector<int64_t>& logit_rows) {
  const int64_t count = static_cast<int64_t>(samplers.size());
  std::vector<kernels::SampledToken> tokens(samplers.size());
  parallel_.ForRows(count, 4 * config_.vocab_size, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const kernels::SamplingRow parameters = SamplingOf(responses_.at(samplers[i]));
      kernels::SampleRows(logits.data() + logit_rows[i] * config_.vocab_size, 1, config_.vocab_size, &parameters,
                          &tokens[i]);
    }
  });
  stats_.sampled_tokens += count;
  return tokens;
}

void RolloutEngine::State::Accept(uint64_t request_id, const kernels::SampledToken& token) {
  Response& response = responses_.at(request_id);
  if (!token.finite) {
    return Finish(request_id, FinishReason::kError,
                  absl::InternalError(absl::StrCat("request ", request_id, ": the logits after token ", response.made(),
                                                   " of the response are not finite (NaN or Inf) under version (",
                                                   version_.attempt, ", ", version_.step, "); check the weights")));
  }
  response.Append(token, version_, scheduler_.mixed(request_id));
  if (const std::optional<FinishReason> end = response.EndOf(config_)) return Finish(request_id, *end);
  scheduler_.Append(request_id, token.token);
}

void RolloutEngine::State::Finish(uint64_t request_id, FinishReason reason, absl::Status error) {
  const auto found = responses_.find(request_id);
  found->second.generation.finish_reason = reason;
  found->second.generation.error = std::move(error);
  finished_.emplace(found->second.arrival, std::move(found->second.generation));
  scheduler_.Remove(request_id);
  responses_.erase(found);
}

absl::Status RolloutEngine::State::UpdateWeights(ModelWeights weights, ModelVersion version, OnUpdate on_update) {
  const ModelVersion newest = pending_.has_value() ? pending_->version : version_;
  if (version <= newest) {
    return absl::FailedPreconditionError(absl::StrCat("version (", version.attempt, ", ", version.step,
                                                      ") is not newer than (", newest.attempt, ", ", newest.step, ")"));
  }
  TROUPE_RETURN_IF_ERROR(LlamaParametersOf(config_, weights).status());
  pending_ = PendingUpdate{std::move(weights), version};
  if (on_update == OnUpdate::kFinish && scheduler_.running() > 0) return absl::OkStatus();
  CommitPending(on_update);
  return absl::OkStatus();
}

void RolloutEngine::State::CommitPending(OnUpdate on_update) {
  // The layout was checked when the update came.
  TROUPE_CHECK(model_->SetWeights(std::move(pending_->weights)).ok(), "a checked version can be committed");
  version_ = pending_->version;
  pending_.reset();
  on_update == OnUpdate::kKeepKv ? scheduler_.KeepPages() : scheduler_.RestartAll();
}

EngineStats RolloutEngine::State::stats() const {
  EngineStats stats = stats_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.pages_total = cache_.num_pages();
  stats.pages_used = scheduler_.pages_used();
  return stats;
}

absl::StatusOr<std::unique_ptr<RolloutEngine>> RolloutEngine::Create(const ModelConfig& config, ModelWeights weights,
                                                                     ModelVersion version,
                                                                     const EngineOptions& options) {
  TROUPE_RETURN_IF_ERROR(CheckOptions(options));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<LlamaInference> model,
                          LlamaInference::Create(config, std::move(weights), options.num_threads));
  TROUPE_ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(config, options.page_tokens, options.kv_bytes));
  auto state = std::make_unique<State>(config, options, version, std::move(model), std::move(cache));
  return std::unique_ptr<RolloutEngine>(new RolloutEngine(std::move(state)));
}

RolloutEngine::RolloutEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
RolloutEngine::~RolloutEngine() = default;

absl::Status RolloutEngine::Add(GenerationRequest request) { return state_->Add(std::move(request)); }
absl::Status RolloutEngine::Abort(uint64_t request_id) { return state_->Abort(request_id); }
absl::StatusOr<std::vector<Generation>> RolloutEngine::Step() {
  try {
    return state_->Step();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "the rollout engine has no memory for this batch; lower max_batch_tokens or kv_bytes");
  }
}
absl::Status RolloutEngine::UpdateWeights(ModelWeights weights, ModelVersion version, OnUpdate on_update) {
  return state_->UpdateWeights(std::move(weights), version, on_update);
}
ModelVersion RolloutEngine::version() const { return state_->version(); }
bool RolloutEngine::update_pending() const { return state_->update_pending(); }
bool RolloutEngine::idle() const { return state_->idle(); }
EngineStats RolloutEngine::stats() const { return state_->stats(); }

}  // namespace troupe::rollout
