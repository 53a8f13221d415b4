// SPDX-License-Identifier: Apache-2.0
//
// The rollout engine: continuous batching over a paged KV cache, made for reinforcement learning. It knows which
// version of the policy made which token and can be interrupted and updated between any two steps.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actors/model/files/model_config.h"
#include "actors/model/model_version.h"
#include "actors/model/weights.h"
#include "actors/rollout/engine/request.h"

namespace troupe::rollout {

struct EngineOptions {
  int64_t max_batch_tokens = 512;       // tokens computed in one step: prefill chunks and one a running response
  int64_t max_running = 128;            // responses that hold pages at one time
  int64_t max_waiting = 65536;          // more are refused with RESOURCE_EXHAUSTED
  int64_t kv_bytes = int64_t{1} << 30;  // keys and values of all layers; touched only as far as it is used
  int64_t page_tokens = 16;             // a multiple of 8
  int num_threads = 1;                  // intra-op threads, the caller's own included
};

// Counters since Create, and gauges.
struct EngineStats {
  int64_t steps = 0;
  int64_t prefill_tokens = 0;  // computed prompt (and recomputed) positions
  int64_t decode_tokens = 0;   // computed positions of tokens just made
  int64_t cached_tokens = 0;   // positions not computed because another response's pages hold them
  int64_t sampled_tokens = 0;
  int64_t preemptions = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t pages_total = 0;
  int64_t pages_used = 0;  // held by running responses
};

// Not thread-safe: one owner calls. No call blocks on anything but computing.
//
//   auto engine = RolloutEngine::Create(config, weights, version, {.num_threads = 2}).value();
//   engine->Add({.request_id = 1, .prompt_ids = ids, .params = {.max_new_tokens = 8, .stop_token_ids = {2}}});
//   while (!engine->idle()) {
//     const std::vector<Generation> done = engine->Step().value();
//   }
class RolloutEngine {
 public:
  // The engine computes on the weights' own memory (float32) and holds the handle until the next version is committed.
  // Unimplemented for an architecture, weight type or RoPE kind that is not there yet; InvalidArgument where config,
  // weights and options disagree or the cache is too small for a page.
  static absl::StatusOr<std::unique_ptr<RolloutEngine>> Create(const ModelConfig& config, ModelWeights weights,
                                                               ModelVersion version, const EngineOptions& options);
  ~RolloutEngine();

  // InvalidArgument, saying what is wrong with the request: an empty prompt or one longer than the context, no tokens
  // asked for, a token id outside the vocabulary, a temperature or top_p out of range, more pages needed than the cache
  // has. AlreadyExists for a request_id in the engine; ResourceExhausted when max_waiting wait.
  absl::Status Add(GenerationRequest request);

  // The response comes out of the next Step with what it has and reason kAbort. NotFound if it is not in the engine.
  absl::Status Abort(uint64_t request_id);

  // One batch: schedule, run, sample. Returns what ended in it, in the order in which it was added. A request whose
  // logits are not finite ends alone with kError. An error of Step itself (out of memory in LibTorch) leaves the engine
  // unusable.
  absl::StatusOr<std::vector<Generation>> Step();

  // Commits a version between steps, or with kFinish as soon as the running ones have ended.
  // FailedPrecondition for one that is not newer than version(); InvalidArgument if the layout is another.
  absl::Status UpdateWeights(ModelWeights weights, ModelVersion version, OnUpdate on_update);

  // The version that the next token will be stamped with.
  ModelVersion version() const;
  // A version given with kFinish waits.
  bool update_pending() const;
  // Nothing is left to do: neither requests nor results nor an update.
  bool idle() const;
  EngineStats stats() const;

 private:
  class State;
  explicit RolloutEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace troupe::rollout
