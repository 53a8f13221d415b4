// SPDX-License-Identifier: Apache-2.0
// The forward pass of a Llama model over a paged KV cache, without gradients: decoding, prefill and scoring.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "actors/model/files/model_config.h"
#include "actors/model/llama/kv_cache.h"
#include "actors/model/llama/llama_parameters.h"
#include "actors/model/weights.h"
#include "kernels/parallel.h"

namespace troupe {

// Rows are tokens, those of one sequence after another.
struct ForwardBatch {
  std::vector<int32_t> tokens;                   // [rows]
  std::vector<int64_t> positions;                // [rows]
  std::vector<kernels::SequenceRows> sequences;  // their pages must be in the cache, with room for these rows
  std::vector<int64_t> logit_rows;               // which rows go through the LM head
};

// Computes on the weights' own memory; nothing is copied or packed. Not thread-safe; buffers grow to the largest batch
// and stay.
class LlamaInference {
 public:
  // InvalidArgument where config and weights disagree, Unimplemented for another architecture.
  static absl::StatusOr<std::unique_ptr<LlamaInference>> Create(const ModelConfig& config, ModelWeights weights,
                                                                int threads);

  // Other values of the same layout, from the next Forward on. InvalidArgument, and nothing changed, if the layout
  // differs.
  absl::Status SetWeights(ModelWeights weights);

  // Writes keys and values of every row into the cache, and returns logits [logit_rows, vocabulary], valid until the
  // next call.
  std::span<const float> Forward(const ForwardBatch& batch, KvCache& cache);

  // The final norm's output of the rows that went through the LM head in the last Forward: [logit_rows, hidden].
  std::span<const float> last_hidden() const { return head_input_; }

 private:
  LlamaInference(const ModelConfig& config, int threads);

  void Embed(const ForwardBatch& batch);
  void Layer(const ForwardBatch& batch, int64_t layer, KvCache& cache);
  std::span<const float> Head(const ForwardBatch& batch);
  void GrowRope(int64_t positions);

  ModelConfig config_;
  ModelWeights weights_;
  LlamaParameters parameters_;
  kernels::Parallel parallel_;

  std::vector<float> cos_, sin_;  // [positions so far, head_dim / 2]
  std::vector<float> residual_;   // [rows, hidden]
  std::vector<float> normed_;     // [rows, hidden]
  std::vector<float> projected_;  // [rows, qkv or 2 intermediate]
  std::vector<float> mixed_;      // [rows, heads head_dim or intermediate]
  std::vector<float> head_input_;
  std::vector<float> logits_;
};

}  // namespace troupe
