// SPDX-License-Identifier: Apache-2.0
// GenerateCall: one open Generate of a rollout: from prompts to engine requests, from generations to rows in the shard.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actors/data/job_prompts.h"
#include "actors/rollout/engine/request.h"
#include "runtime/actor/future.h"
#include "runtime/base/monotonic.h"
#include "runtime/job/job_config.h"
#include "runtime/stream/row_shard.h"
#include "troupe/v1/roles.pb.h"

namespace troupe::rollout {

// What all calls of a rollout share; outlives them.
struct GenerateSetting {
  const JobConfig* config = nullptr;
  const JobPrompts* prompts = nullptr;
  RowShard* shard = nullptr;
  std::vector<int32_t> stop_token_ids;
};

// Not thread-safe: made on the actor's thread, then used by the engine's only.
class GenerateCall {
 public:
  // NOT_FOUND: a prompt that the data set does not have.
  static absl::StatusOr<std::shared_ptr<GenerateCall>> Make(const GenerateSetting& setting,
                                                            const v1::GenerateRequest& request,
                                                            Promise<v1::GenerateResponse> promise);

  // To be submitted; generation i is of request i. Groups whose rows are in the shard already are not made again.
  std::vector<GenerationRequest> TakeRequests() { return std::move(requests_); }

  void Done(size_t index, Generation generation);
  void AllDone(const absl::Status& status);

 private:
  struct Group {
    v1::PromptTask task;
    const Prompt* prompt = nullptr;
    std::vector<v1::Row> rows;
    int32_t left = 0;  // generations to come
  };

  explicit GenerateCall(const GenerateSetting& setting, Promise<v1::GenerateResponse> promise)
      : setting_(setting), promise_(std::move(promise)) {}
  void AddRequests(size_t group, const v1::PromptTask& task);
  v1::Row MakeRow(const Group& group, int32_t sample, const Generation& generation) const;

  const GenerateSetting& setting_;
  Promise<v1::GenerateResponse> promise_;
  std::vector<Group> groups_;
  std::vector<GenerationRequest> requests_;
  std::vector<std::pair<size_t, int32_t>> places_;  // (group, sample index) of each request
  absl::Status failed_;
  v1::GenerationStats stats_;
  Monotonic began_;
};

}  // namespace troupe::rollout
