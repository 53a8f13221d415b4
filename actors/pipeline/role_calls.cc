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
  Caller(ActorContext& context, const CallRole& call, const std::string& class_name, Deliver deliver)
      : context_(context), call_(call), class_name_(class_name), deliver_(std::move(deliver)) {}

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
    using Result = typename internal::MethodTraits<decltype(kMethod)>::Result;
    OutgoingCall out;
    out.method = internal::WireName<T, kMethod>();
    if (!class_name_.empty()) out.method.replace(0, out.method.find('.'), class_name_);
    out.arguments = Encode(std::tuple<Request>(request));
    out.timeout = kRoleCallTimeout;
    out.reply = [id, deliver = deliver_, router = ref->router()](const absl::StatusOr<std::string>& reply) {
      auto response = internal::DecodeResult<Result>(reply, router);
      if (!response.ok()) return deliver(CallFailed{id, response.status()});
      deliver(CallDone{id, *std::move(response)});
    };
    ref->router()->Call(ref->address(), std::move(out));
  }

  ActorContext& context_;
  const CallRole& call_;
  const std::string& class_name_;
  Deliver deliver_;
};

}  // namespace

void SendRoleCall(ActorContext& context, const CallRole& call, const std::string& class_name, Deliver deliver) {
  std::visit(Caller(context, call, class_name, std::move(deliver)), call.request);
}

}  // namespace troupe
