// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/role_calls.h"

#include <utility>

#include "actors/reference/reference.h"
#include "actors/reward/reward.h"
#include "actors/rollout/rollout.h"
#include "actors/trainer/trainer.h"
#include "runtime/worker/actor_directory.h"

namespace troupe {
namespace {

using Deliver = std::function<void(PipelineEvent)>;

class Caller {
 public:
  Caller(ActorContext& context, const CallRole& call, Deliver deliver)
      : context_(context), call_(call), deliver_(std::move(deliver)) {}

  void operator()(const v1::GetRolloutStateRequest& request) { Send<Rollout, &Rollout::GetState>(request); }
  void operator()(const v1::RestoreRowsRequest& request) { Send<Rollout, &Rollout::RestoreRows>(request); }
  void operator()(const v1::GenerateRequest& request) { Send<Rollout, &Rollout::Generate>(request); }
  void operator()(const v1::UpdateWeightsRequest& request) { Send<Rollout, &Rollout::UpdateWeights>(request); }
  void operator()(const v1::SyncRowsRequest& request) { Send<Rollout, &Rollout::SyncRows>(request); }
  void operator()(const v1::ReleaseRowsRequest& request) { Send<Rollout, &Rollout::ReleaseRows>(request); }
  void operator()(const v1::ScoreRequest& request) { Send<Reward, &Reward::Score>(request); }
  void operator()(const v1::LogProbsRequest& request) { Send<Reference, &Reference::AddLogProbs>(request); }
  void operator()(const v1::GetTrainerStateRequest& request) { Send<Trainer, &Trainer::GetState>(request); }
  void operator()(const v1::LoadCheckpointRequest& request) { Send<Trainer, &Trainer::LoadCheckpoint>(request); }
  void operator()(const v1::TrainStepRequest& request) { Send<Trainer, &Trainer::TrainStep>(request); }
  void operator()(const v1::PublishRequest& request) { Send<Trainer, &Trainer::Publish>(request); }
  void operator()(const v1::SaveCheckpointRequest& request) { Send<Trainer, &Trainer::SaveCheckpoint>(request); }

 private:
  template <typename T, auto kMethod, typename Request>
  void Send(const Request& request) {
    uint64_t id = call_.call_id;
    absl::StatusOr<Ref<T>> ref = context_.directory().Resolve<T>(call_.worker.role, call_.worker.replica);
    if (ref.ok() && ref->life().incarnation != call_.incarnation) {
      ref = absl::UnavailableError(call_.worker.ToString() + " was restarted");
    }
    if (!ref.ok()) return deliver_(CallFailed{id, ref.status()});
    ref->WithTimeout(kRoleCallTimeout).template Call<kMethod>(request).Then([id, deliver = deliver_](auto response) {
      if (!response.ok()) return deliver(CallFailed{id, response.status()});
      deliver(CallDone{id, *std::move(response)});
    });
  }

  ActorContext& context_;
  const CallRole& call_;
  Deliver deliver_;
};

}  // namespace

void SendRoleCall(ActorContext& context, const CallRole& call, Deliver deliver) {
  std::visit(Caller(context, call, std::move(deliver)), call.request);
}

}  // namespace troupe
