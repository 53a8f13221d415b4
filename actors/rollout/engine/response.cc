// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/response.h"

#include <algorithm>

#include "actors/rollout/engine/token_random.h"

namespace troupe::rollout {

void Response::Append(const kernels::SampledToken& token, const ModelVersion& version, bool mixed_kv) {
  generation.tokens.push_back(token.token);
  generation.rollout_logprobs.push_back(token.logprob);
  generation.filtered_logprobs.push_back(token.filtered_logprob);
  const int32_t end = static_cast<int32_t>(generation.tokens.size());
  if (!generation.spans.empty()) {
    VersionSpan& last = generation.spans.back();
    if (last.attempt == version.attempt && last.step == version.step && last.mixed_kv == mixed_kv) {
      last.end = end;
      return;
    }
  }
  generation.spans.push_back({version.attempt, version.step, end - 1, end, mixed_kv});
}

std::optional<FinishReason> Response::EndOf(const ModelConfig& config) const {
  const int32_t token = generation.tokens.back();
  const auto contains = [token](const auto& ids) { return std::find(ids.begin(), ids.end(), token) != ids.end(); };
  if (!request.params.ignore_eos && (contains(config.eos_token_ids) || contains(request.params.stop_token_ids))) {
    return FinishReason::kStop;
  }
  const int64_t length = static_cast<int64_t>(request.prompt_ids.size()) + made();
  if (made() >= request.params.max_new_tokens || length >= config.max_position_embeddings) return FinishReason::kLength;
  return std::nullopt;
}

kernels::SamplingRow SamplingOf(const Response& response) {
  const GenerationRequest& request = response.request;
  const bool greedy = request.params.greedy || request.params.temperature == 0;
  return {
      .temperature = greedy ? 1.0f : static_cast<float>(request.params.temperature),
      .greedy = greedy,
      .top_k = request.params.top_k,
      .top_p = request.params.top_p,
      .min_p = request.params.min_p,
      .uniform = UniformOf({request.seed, request.prompt_id, request.epoch, request.sample_index, response.made()})};
}

}  // namespace troupe::rollout
