// SPDX-License-Identifier: Apache-2.0
//
// What goes into the rollout engine and what comes out of it.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "actors/model/model_version.h"

namespace troupe::rollout {

// How the next token is chosen. Logits are divided by the temperature, then cut by top_k, by top_p, and by min_p.
struct SamplingParams {
  double temperature = 1.0;    // 0 means greedy; negative, NaN or infinite is refused
  int64_t top_k = 0;           // 0 or >= vocabulary: no cut. Exactly top_k survive; ties go to the lower token id
  double top_p = 1.0;          // in (0, 1]; 1: no cut. At least one token survives
  double min_p = 0;            // in [0, 1]; 0: no cut. Tokens less likely than min_p times the most likely one go
  int64_t max_new_tokens = 0;  // > 0; the whole budget of the response, tokens already generated included
  std::vector<int32_t> stop_token_ids;  // besides the model's own end ids; each ends the response and is its last token
  bool ignore_eos = false;              // goes on past all of these until the budget is spent
  bool greedy = false;                  // the same as temperature 0; log-probabilities are then those at temperature 1
};

// One response to generate. The random number of a token depends only on (seed, prompt_id, epoch, sample_index,
// position in the response), never on what else is in the batch.
struct GenerationRequest {
  uint64_t request_id = 0;  // unique among those in the engine
  std::vector<int32_t> prompt_ids;
  uint64_t seed = 0;
  uint64_t prompt_id = 0;
  uint64_t epoch = 0;
  int32_t sample_index = 0;
  SamplingParams params;
  std::vector<int32_t> generated;  // a response to be continued: its budget is max_new_tokens - generated.size()
};

// Tokens [begin, end) of a Generation were made under this version.
struct VersionSpan {
  int64_t attempt = 0;
  int64_t step = 0;
  int32_t begin = 0;
  int32_t end = 0;
  bool mixed_kv = false;  // some keys and values they attended to were of an older version (OnUpdate::kKeepKv)

  friend bool operator==(const VersionSpan&, const VersionSpan&) = default;
};

enum class FinishReason { kStop, kLength, kAbort, kError };

std::string_view NameOf(FinishReason reason);  // "stop", "length", "abort", "error"

// A finished (or aborted) response. All vectors are parallel to `tokens`.
struct Generation {
  uint64_t request_id = 0;
  std::vector<int32_t> tokens;           // made here, the end token included; not those of GenerationRequest::generated
  std::vector<double> rollout_logprobs;  // log-probability under the whole distribution at the request's temperature
  std::vector<double> filtered_logprobs;  // after top_k, top_p and min_p, renormalised: what the token was drawn from
  std::vector<VersionSpan> spans;         // ordered, without gaps, over [0, tokens.size())
  FinishReason finish_reason = FinishReason::kStop;
  absl::Status error;  // why, for kError; OK otherwise
};

// What happens to unfinished responses when new weights are committed.
enum class OnUpdate {
  kRecompute,  // pages are dropped, the sequence is prefilled again under the new version
  kKeepKv,     // pages of the old version are kept; later tokens are marked mixed_kv
  kFinish,     // the new version waits until the running ones end; nothing new is started before it
};

}  // namespace troupe::rollout
