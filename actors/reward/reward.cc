// SPDX-License-Identifier: Apache-2.0
#include "actors/reward/reward.h"

#include "actors/pipeline/job_model.h"
#include "actors/reward/row_scoring.h"
#include "runtime/base/status.h"

namespace troupe {

Reward::Reward() = default;
Reward::~Reward() = default;

absl::Status Reward::OnStart(ActorContext& context) {
  TROUPE_ASSIGN_OR_RETURN(JobConfig config, JobOf(context));
  TROUPE_ASSIGN_OR_RETURN(rows_, RowScoring::Create(context));
  TROUPE_ASSIGN_OR_RETURN(scorer_, MakeWeightedReward(config.reward.functions));
  return absl::OkStatus();
}

void Reward::OnStop(std::string_view) { scorer_.reset(); }

absl::StatusOr<v1::ScoreResponse> Reward::Score(const v1::ScoreRequest& request) {
  return rows_->Score(request, *scorer_);
}

TROUPE_ACTOR_REGISTER(Reward, TROUPE_INIT());

}  // namespace troupe
