// SPDX-License-Identifier: Apache-2.0
// Reference: an actor with the frozen base model. It adds the column ref_logprobs to rows. Started only when a KL
// coefficient is not 0.
#pragma once

#include <memory>

#include "runtime/actor/actor.h"
#include "troupe/v1/roles.pb.h"

namespace troupe {

class Reference final : public Actor {
 public:
  Reference();
  ~Reference() override;

  absl::Status OnStart(ActorContext& context) override;

  // UNAVAILABLE: a shard is away. The column is in the shards when this returns.
  absl::StatusOr<v1::LogProbsResponse> AddLogProbs(const v1::LogProbsRequest& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

TROUPE_ACTOR_INTERFACE(Reference, TROUPE_METHODS(AddLogProbs));

}  // namespace troupe
