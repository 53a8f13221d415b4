// SPDX-License-Identifier: Apache-2.0
// TrainerCore: one policy-gradient step from a batch of rows, without IO, actors or threads of its own.
//
// A step: refuse bad rows; advantages over the whole batch; then, mini-batch by mini-batch, log-probabilities by
// micro-batches of at most ppo_max_token_len tokens, the loss, its gradient, clipping, AdamW. The gradient does not
// depend on how a mini-batch falls into micro-batches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actors/model/files/model_config.h"
#include "actors/model/weights.h"
#include "actors/trainer/core/train_batch.h"
#include "actors/trainer/core/trainer_options.h"

namespace troupe {

// What one step reports. Names of `values` are verl's ("actor/pg_loss", "actor/grad_norm", ...).
struct StepMetrics {
  int64_t step = 0;  // the step that this was, from 1: equals TrainerCore::step() after it
  std::map<std::string, double> values;
  std::vector<std::string> dropped_rows;  // row_ids refused for NaN or Inf, or because their group fell below two
  int64_t skipped_updates = 0;            // optimizer steps not taken because the gradient was not finite
};

// Not thread-safe. Computes on the calling thread and LibTorch's intra-op threads; with one thread the same batches
// give the same bits.
class TrainerCore {
 public:
  // Takes over `weights` (float32, writable, held by nobody else), which it updates in place. InvalidArgument for an
  // unknown name in `options` (with the nearest one), options that contradict one another, or a layout that does not
  // fit `config`.
  static absl::StatusOr<std::unique_ptr<TrainerCore>> Create(const ModelConfig& config, ModelWeights weights,
                                                             const TrainerOptions& options);
  virtual ~TrainerCore() = default;

  // One train batch: ppo_epochs x mini-batches optimizer steps, after which step() is one more. InvalidArgument, with
  // nothing changed, for a batch that is malformed (a column of another length than its row, a token outside the
  // vocabulary, a row longer than ppo_max_token_len or the context: the row is named). Bad numbers in rows are no
  // error: such rows are dropped and counted.
  virtual absl::StatusOr<StepMetrics> Step(const TrainBatch& batch) = 0;

  // Of the last step; do not read during Step or Load.
  virtual const ModelWeights& weights() const = 0;
  virtual const ModelConfig& config() const = 0;
  // Train batches consumed; 0 at the start.
  virtual int64_t step() const = 0;

  // Writes optimizer.safetensors and trainer_state.json into `dir`, which exists. The model is written apart
  // (WriteHuggingFaceFolder), so that a checkpoint is a valid model.path.
  virtual absl::Status SaveState(const std::string& dir) const = 0;
  // Restores what SaveState wrote and the model's parameters from `dir`; then continues bit by bit as the saved one
  // would. Nothing is changed if it fails.
  virtual absl::Status Load(const std::string& dir) = 0;
};

}  // namespace troupe
