// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace troupe::rollout {
namespace {

absl::Status Refuse(const GenerationRequest& request, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("request ", request.request_id, ": ", why));
}

absl::Status CheckParams(const GenerationRequest& request) {
  const SamplingParams& params = request.params;
  if (!std::isfinite(params.temperature) || params.temperature < 0) {
    return Refuse(request, absl::StrCat("temperature is ", params.temperature, "; it must be finite and not negative"));
  }
  if (params.temperature > 0 && !std::isnormal(static_cast<float>(params.temperature))) {
    return Refuse(request, absl::StrCat("temperature is ", params.temperature, ", too close to 0; use 0 for greedy"));
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return Refuse(request, absl::StrCat("top_p is ", params.top_p, "; it must be above 0 and at most 1"));
  }
  if (!(params.min_p >= 0 && params.min_p <= 1)) {
    return Refuse(request, absl::StrCat("min_p is ", params.min_p, "; it must be in [0, 1] (0: no cut)"));
  }
  if (params.top_k < 0) {
    return Refuse(request, absl::StrCat("top_k is ", params.top_k, "; it must not be negative (0: no cut)"));
  }
  return absl::OkStatus();
}

absl::Status CheckIds(const GenerationRequest& request, const char* what, const std::vector<int32_t>& ids,
                      int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return Refuse(request, absl::StrCat(what, "[", i, "] is token id ", ids[i], "; the vocabulary has ", vocab_size));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const GenerationRequest& request, const RequestLimits& limits) {
  TROUPE_RETURN_IF_ERROR(CheckParams(request));
  const int64_t prompt = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t generated = static_cast<int64_t>(request.generated.size());
  const int64_t budget = request.params.max_new_tokens;
  if (prompt == 0) return Refuse(request, "the prompt is empty");
  TROUPE_RETURN_IF_ERROR(CheckIds(request, "prompt_ids", request.prompt_ids, limits.vocab_size));
  TROUPE_RETURN_IF_ERROR(CheckIds(request, "generated", request.generated, limits.vocab_size));
  TROUPE_RETURN_IF_ERROR(CheckIds(request, "stop_token_ids", request.params.stop_token_ids, limits.vocab_size));
  if (budget <= 0) return Refuse(request, absl::StrCat("max_new_tokens is ", budget, "; it must be at least 1"));
  if (generated >= budget) {
    return Refuse(request,
                  absl::StrCat("nothing is left of max_new_tokens ", budget, ": ", generated, " were generated"));
  }
  if (prompt + generated >= limits.context_tokens) {
    return Refuse(request,
                  absl::StrCat("a prompt of ", prompt + generated, " tokens leaves no room for a response in the ",
                               "model's context of ", limits.context_tokens));
  }
  const int64_t longest = std::min(prompt + std::min(budget, limits.context_tokens), limits.context_tokens);
  if (longest > limits.cache_tokens) {
    return Refuse(request, absl::StrCat("prompt and response take up to ", longest, " positions; the KV cache has ",
                                        limits.cache_tokens, ". Raise kv_bytes or lower max_new_tokens"));
  }
  return absl::OkStatus();
}

}  // namespace troupe::rollout
