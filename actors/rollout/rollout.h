// SPDX-License-Identifier: Apache-2.0
// Rollout: an actor that generates. It owns a rollout engine on a thread of its own, the tokenised prompts, and the
// shard of the experience stream that its rows lie in.
//
// Several Generate calls may be open; new weights are received while they run and committed between two engine steps.
#pragma once

#include <memory>

#include "runtime/actor/actor.h"
#include "runtime/actor/future.h"
#include "troupe/v1/roles.pb.h"

namespace troupe {

class Rollout final : public Actor {
 public:
  Rollout();
  ~Rollout() override;

  std::vector<grpc::Service*> Services() override;
  absl::Status OnStart(ActorContext& context) override;
  void OnStop(std::string_view reason) override;

  v1::RolloutState GetState(const v1::GetRolloutStateRequest& request);
  Future<v1::GenerateResponse> Generate(const v1::GenerateRequest& request);
  Future<v1::UpdateWeightsResponse> UpdateWeights(const v1::UpdateWeightsRequest& request);
  absl::StatusOr<v1::SyncRowsResponse> SyncRows(const v1::SyncRowsRequest& request);
  absl::StatusOr<v1::ReleaseRowsResponse> ReleaseRows(const v1::ReleaseRowsRequest& request);
  absl::StatusOr<v1::RestoreRowsResponse> RestoreRows(const v1::RestoreRowsRequest& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

TROUPE_ACTOR_INTERFACE(Rollout, TROUPE_METHODS(GetState, Generate, UpdateWeights, SyncRows, ReleaseRows, RestoreRows));

}  // namespace troupe
