// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/simple_loop.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "actors/rollout/engine/response.h"

namespace troupe::rollout {

SimpleLoop::SimpleLoop(const ModelConfig& config) : config_(config) {}

void SimpleLoop::SetWeights(const ModelVersion& version, ModelWeights weights) {
  models_[version] = LlamaInference::Create(config_, std::move(weights), 1).value();
}

Generation SimpleLoop::Generate(const GenerationRequest& request, const ModelVersion& version) {
  Response response{.request = request};
  std::optional<FinishReason> end;
  do {
    response.Append(Next(request, response.generation, version), version, false);
    end = response.EndOf(config_);
  } while (!end.has_value());
  response.generation.finish_reason = *end;
  return response.generation;
}

Generation SimpleLoop::Replay(const GenerationRequest& request, const Generation& made) {
  Response response{.request = request};
  std::optional<FinishReason> end;
  for (const VersionSpan& span : made.spans) {
    for (int32_t i = span.begin; i < span.end && !end.has_value(); ++i) {
      const ModelVersion version{span.attempt, span.step};
      response.Append(Next(request, response.generation, version), version, false);
      end = response.EndOf(config_);
    }
  }
  response.generation.finish_reason =
      made.finish_reason == FinishReason::kAbort ? FinishReason::kAbort : end.value_or(FinishReason::kError);
  return response.generation;
}

kernels::SampledToken SimpleLoop::Next(const GenerationRequest& request, const Generation& so_far,
                                       const ModelVersion& version) {
  ForwardBatch batch{.tokens = request.prompt_ids};
  batch.tokens.insert(batch.tokens.end(), request.generated.begin(), request.generated.end());
  batch.tokens.insert(batch.tokens.end(), so_far.tokens.begin(), so_far.tokens.end());
  const int64_t rows = static_cast<int64_t>(batch.tokens.size());
  batch.positions.resize(rows);
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.logit_rows = {rows - 1};
  KvCache cache = KvCache::Create(config_, 64, int64_t{1} << 20).value();
  std::vector<int32_t> pages(cache.num_pages());
  std::iota(pages.begin(), pages.end(), 0);
  batch.sequences = {{pages.data(), 0, rows, 0}};
  const std::span<const float> logits = models_.at(version)->Forward(batch, cache);
  Response response{.request = request, .generation = so_far};
  return kernels::SampleRowReference(logits.data(), config_.vocab_size, SamplingOf(response));
}

}  // namespace troupe::rollout
