// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/trainer.h"

#include <optional>

#include "actors/model/files/hugging_face_folder.h"
#include "actors/model/intra_op.h"
#include "actors/model/weights.h"
#include "actors/pipeline/job_model.h"
#include "actors/pipeline/shard_channels.h"
#include "actors/trainer/batch_of_rows.h"
#include "actors/trainer/core/checkpoint.h"
#include "actors/trainer/core/trainer_core.h"
#include "actors/trainer/job_options.h"
#include "runtime/base/status.h"
#include "runtime/env/memory.h"
#include "runtime/weights/weight_publisher.h"

namespace troupe {
namespace {

// As the wire spells the types of parameters.
std::string DtypeName(ElementType type) {
  switch (type) {
    case ElementType::kBF16:
      return "bfloat16";
    case ElementType::kF16:
      return "float16";
    default:
      return "float32";
  }
}

}  // namespace

class Trainer::Impl {
 public:
  // Constructed before OnStart, since gRPC serves it from the start.
  class LateSource final : public v1::WeightSource::Service {
   public:
    void Attach(WeightPublisher* publisher) { publisher_.store(publisher); }
    grpc::Status GetManifest(grpc::ServerContext* context, const v1::GetManifestRequest* request,
                             v1::WeightManifest* response) override {
      WeightPublisher* publisher = publisher_.load();
      if (publisher == nullptr) return {grpc::StatusCode::UNAVAILABLE, "the trainer is starting"};
      return publisher->GetManifest(context, request, response);
    }
    grpc::Status Pull(grpc::ServerContext* context, const v1::PullWeightsRequest* request,
                      grpc::ServerWriter<v1::WeightBucket>* writer) override {
      WeightPublisher* publisher = publisher_.load();
      if (publisher == nullptr) return {grpc::StatusCode::UNAVAILABLE, "the trainer is starting"};
      return publisher->Pull(context, request, writer);
    }

   private:
    std::atomic<WeightPublisher*> publisher_{nullptr};
  };

  LateSource& source() { return source_; }

  absl::Status Start(ActorContext& context) {
    context_ = &context;
    SetIntraOpThreads(ThreadsOf(context));
    TROUPE_ASSIGN_OR_RETURN(config_, JobOf(context));
    TROUPE_ASSIGN_OR_RETURN(tokenizer_, Tokenizer::Load(config_.model.path));
    const ActorSetting& setting = context.setting();
    publisher_ = std::make_unique<WeightPublisher>(WeightPublisherOptions{
        .owner = context.self(), .node_id = setting.node_id, .object_socket = setting.object_socket});
    source_.Attach(publisher_.get());
    return absl::OkStatus();
  }

  v1::TrainerState State() const {
    v1::TrainerState state;
    state.set_loaded(core_ != nullptr);
    *state.mutable_version() = Version();
    return state;
  }

  absl::StatusOr<v1::TrainerState> Load(const v1::LoadCheckpointRequest& request) {
    core_.reset();  // before another copy of the model is read
    last_.reset();
    if (!request.directory().empty()) TROUPE_RETURN_IF_ERROR(VerifyCheckpoint(request.directory()));
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<ModelSource> source, ModelSource::Open(config_.model.path));
    TROUPE_ASSIGN_OR_RETURN(ModelWeights weights, LoadWeights(*source));
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<TrainerCore> core,
                            TrainerCore::Create(source->config(), std::move(weights), TrainerOptionsOf(config_)));
    if (!request.directory().empty()) TROUPE_RETURN_IF_ERROR(core->Load(request.directory()));
    core_ = std::move(core);
    attempt_ = request.attempt();
    return State();
  }

  absl::StatusOr<v1::TrainStepResponse> Step(const v1::TrainStepRequest& request) {
    if (core_ == nullptr) return absl::FailedPreconditionError("no checkpoint was loaded");
    bool repeated = last_ && request.expected().attempt() == attempt_ && request.expected().step() == core_->step() - 1;
    if (!repeated) TROUPE_RETURN_IF_ERROR(Train(request));
    // Also when a repeat finds that the step was taken and its publishing failed.
    if (request.publish() && !last_->has_manifest()) {
      TROUPE_ASSIGN_OR_RETURN(*last_->mutable_manifest(), PublishNow());
    }
    return *last_;
  }

  absl::StatusOr<v1::PublishResponse> Publish() {
    if (core_ == nullptr) return absl::FailedPreconditionError("no checkpoint was loaded");
    v1::PublishResponse response;
    TROUPE_ASSIGN_OR_RETURN(*response.mutable_manifest(), PublishNow());
    return response;
  }

  absl::Status Save(const std::string& directory) {
    if (core_ == nullptr) return absl::FailedPreconditionError("no checkpoint was loaded");
    auto read = [&](const ParameterShape& parameter) -> absl::StatusOr<absl::Span<const float>> {
      std::span<float> values = core_->weights().Float32(parameter.name);
      if (values.empty()) return absl::InternalError("the trainer has no parameter " + parameter.name);
      return absl::Span<const float>(values.data(), values.size());
    };
    TROUPE_RETURN_IF_ERROR(WriteHuggingFaceFolder(directory, core_->config(), tokenizer_.get(), read));
    return core_->SaveState(directory);
  }

 private:
  v1::WeightVersion Version() const {
    v1::WeightVersion version;
    version.set_attempt(attempt_);
    version.set_step(core_ == nullptr ? 0 : core_->step());
    return version;
  }

  // One step; its answer is in last_, without a manifest.
  absl::Status Train(const v1::TrainStepRequest& request) {
    if (request.expected().attempt() != attempt_ || request.expected().step() != core_->step()) {
      return absl::FailedPreconditionError("the trainer is at step " + std::to_string(core_->step()) + " of attempt " +
                                           std::to_string(attempt_) + ", asked for is step " +
                                           std::to_string(request.expected().step()) + " of attempt " +
                                           std::to_string(request.expected().attempt()));
    }
    TROUPE_ASSIGN_OR_RETURN(
        std::vector<v1::Row> rows,
        FetchSources(request.sources(), {"prompt_ids", "response_ids", "rollout_logprobs", "ref_logprobs"},
                     ShardChannelsOf(*context_)));
    TROUPE_ASSIGN_OR_RETURN(TrainBatch batch, BatchOfRows(request, rows));
    TROUPE_ASSIGN_OR_RETURN(StepMetrics metrics, core_->Step(batch));
    v1::TrainStepResponse response;
    *response.mutable_version() = Version();
    response.mutable_metrics()->insert(metrics.values.begin(), metrics.values.end());
    (*response.mutable_metrics())["perf/cpu_memory_used_gb"] =
        static_cast<double>(UsedMemoryBytes()) / static_cast<double>(1 << 30);
    for (const std::string& row : metrics.dropped_rows) response.add_dropped_rows(row);
    last_ = std::move(response);
    return absl::OkStatus();
  }

  absl::StatusOr<v1::WeightManifest> PublishNow() {
    const ModelWeights& weights = core_->weights();
    std::vector<v1::WeightEntry> entries;
    for (const WeightEntry& entry : weights.layout().entries) {
      v1::WeightEntry& proto = entries.emplace_back();
      proto.set_name(entry.name);
      proto.set_dtype(DtypeName(entry.type));
      proto.mutable_shape()->Add(entry.shape.begin(), entry.shape.end());
      proto.set_offset_bytes(entry.offset_bytes);
    }
    return publisher_->Publish(Version(), std::move(entries), weights.bytes());
  }

  ActorContext* context_ = nullptr;
  JobConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  LateSource source_;
  std::unique_ptr<WeightPublisher> publisher_;
  std::unique_ptr<TrainerCore> core_;
  int64_t attempt_ = 0;
  std::optional<v1::TrainStepResponse> last_;
};

Trainer::Trainer() : impl_(std::make_unique<Impl>()) {}
Trainer::~Trainer() = default;

std::vector<grpc::Service*> Trainer::Services() { return {&impl_->source()}; }
absl::Status Trainer::OnStart(ActorContext& context) { return impl_->Start(context); }
v1::TrainerState Trainer::GetState(const v1::GetTrainerStateRequest&) { return impl_->State(); }
absl::StatusOr<v1::TrainerState> Trainer::LoadCheckpoint(const v1::LoadCheckpointRequest& request) {
  return impl_->Load(request);
}
absl::StatusOr<v1::TrainStepResponse> Trainer::TrainStep(const v1::TrainStepRequest& request) {
  return impl_->Step(request);
}
absl::StatusOr<v1::PublishResponse> Trainer::Publish(const v1::PublishRequest&) { return impl_->Publish(); }
absl::StatusOr<v1::SaveCheckpointResponse> Trainer::SaveCheckpoint(const v1::SaveCheckpointRequest& request) {
  TROUPE_RETURN_IF_ERROR(impl_->Save(request.directory()));
  return v1::SaveCheckpointResponse();
}

TROUPE_ACTOR_REGISTER(Trainer, TROUPE_INIT());

}  // namespace troupe
