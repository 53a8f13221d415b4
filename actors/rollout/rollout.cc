// SPDX-License-Identifier: Apache-2.0
#include "actors/rollout/rollout.h"

#include <atomic>
#include <thread>

#include "actors/model/weights.h"
#include "actors/pipeline/job_model.h"
#include "actors/rollout/engine_loop.h"
#include "actors/rollout/generate_call.h"
#include "actors/rollout/trainer_source.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/object/object_client.h"
#include "runtime/stream/row_store.h"
#include "runtime/weights/weight_receiver.h"

namespace troupe {
namespace {

// A transfer takes seconds; one that takes longer than this is given up and begun again.
constexpr absl::Duration kTransferTimeout = absl::Minutes(10);

rollout::OnUpdate OnUpdateOf(const std::string& name) {
  if (name == "keep_kv") return rollout::OnUpdate::kKeepKv;
  if (name == "finish") return rollout::OnUpdate::kFinish;
  return rollout::OnUpdate::kRecompute;
}

// A shard's file in a checkpoint: "rows-rollout-0.records".
std::string SavedRowsName(const std::string& shard) {
  std::string name = "rows-" + shard + ".records";
  name.replace(name.find('/'), 1, "-");
  return name;
}

}  // namespace

class Rollout::Impl {
 public:
  absl::Status Start(ActorContext& context) {
    context_ = &context;
    TROUPE_ASSIGN_OR_RETURN(config_, JobOf(context));
    TROUPE_RETURN_IF_ERROR(OpenShard());
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<ModelSource> source, ModelSource::Open(config_.model.path));
    model_config_ = source->config();
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(config_.model.path));
    TROUPE_ASSIGN_OR_RETURN(prompts_, LoadJobPrompts(config_, *tokenizer, model_config_.max_position_embeddings));
    TROUPE_ASSIGN_OR_RETURN(ModelWeights weights, LoadWeights(*source));
    layout_ = weights.layout();
    rollout::EngineOptions options;
    options.max_batch_tokens = config_.rollout.max_num_batched_tokens;
    options.max_running = config_.rollout.max_num_seqs;
    options.kv_bytes = config_.rollout.kv_cache_memory;
    options.num_threads = ThreadsOf(context);
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<rollout::RolloutEngine> engine,
                            rollout::RolloutEngine::Create(model_config_, std::move(weights), {}, options));
    setting_ = {.config = &config_, .prompts = &prompts_, .shard = shard_.get(), .stop_token_ids = {}};
    for (int64_t id : model_config_.eos_token_ids) setting_.stop_token_ids.push_back(static_cast<int32_t>(id));
    if (!context.setting().object_socket.empty()) {
      objects_ = std::make_unique<ObjectClient>(context.setting().object_socket, context.self());
    }
    receiver_ = std::make_unique<WeightReceiver>(
        WeightReceiverOptions{.node_id = context.setting().node_id, .objects = objects_.get()});
    loop_ = std::make_unique<rollout::EngineLoop>(std::move(engine));
    return absl::OkStatus();
  }

  void Stop() {
    {
      MutexLock lock(source_mutex_);
      stopping_ = true;
      if (source_ != nullptr) source_->Cancel();
    }
    if (transfer_.joinable()) transfer_.join();
    loop_.reset();
  }

  v1::RolloutState GetState() const {
    v1::RolloutState state;
    ModelVersion version = loop_->version();
    state.mutable_version()->set_attempt(version.attempt);
    state.mutable_version()->set_step(version.step);
    if (auto serving = receiver_->serving()) state.set_weights_hash(serving->manifest.hash());
    return state;
  }

  Future<v1::GenerateResponse> Generate(const v1::GenerateRequest& request) {
    if (loop_->version().step < request.version().step()) {
      return Future<v1::GenerateResponse>::Of(
          absl::FailedPreconditionError("the rollout holds weights of step " + std::to_string(loop_->version().step) +
                                        ", asked for is step " + std::to_string(request.version().step())));
    }
    Promise<v1::GenerateResponse> promise;
    Future<v1::GenerateResponse> future = promise.TakeFuture();
    auto call = rollout::GenerateCall::Make(setting_, request, promise);
    if (!call.ok()) return Future<v1::GenerateResponse>::Of(call.status());
    std::shared_ptr<rollout::GenerateCall> shared = *call;
    loop_->Submit(
        shared->TakeRequests(),
        [shared](size_t index, rollout::Generation generation) { shared->Done(index, std::move(generation)); },
        [shared](const absl::Status& status) { shared->AllDone(status); });
    return future;
  }

  // The transfer has a thread of its own, since it takes long and generation and other calls go on.
  Future<v1::UpdateWeightsResponse> UpdateWeights(const v1::UpdateWeightsRequest& request) {
    Promise<v1::UpdateWeightsResponse> promise;
    Future<v1::UpdateWeightsResponse> future = promise.TakeFuture();
    const v1::WeightVersion& wanted = request.manifest().version();
    ModelVersion held = loop_->version();
    if (held == ModelVersion{wanted.attempt(), wanted.step()}) {
      v1::UpdateWeightsResponse response;
      *response.mutable_version() = wanted;
      promise.Set(std::move(response));
      return future;
    }
    if (transferring_.exchange(true)) {
      promise.Set(absl::UnavailableError("another version is being received"));
      return future;
    }
    if (transfer_.joinable()) transfer_.join();
    transfer_ = std::thread([this, manifest = request.manifest(), promise] { Receive(manifest, promise); });
    return future;
  }

  absl::StatusOr<v1::SyncRowsResponse> SyncRows(const v1::SyncRowsRequest& request) {
    v1::SyncRowsResponse response;
    if (request.row_ids().empty()) return response;
    response.set_file(SavedRowsName(ShardName()));
    std::vector<std::string> row_ids(request.row_ids().begin(), request.row_ids().end());
    TROUPE_RETURN_IF_ERROR(shard_->Save(row_ids, request.directory() + "/" + response.file()));
    return response;
  }

  absl::StatusOr<v1::ReleaseRowsResponse> ReleaseRows(const v1::ReleaseRowsRequest& request) {
    TROUPE_RETURN_IF_ERROR(shard_->Release({request.row_ids().begin(), request.row_ids().end()}));
    return v1::ReleaseRowsResponse();
  }

  // Of all files: replicas may have been more or fewer when the checkpoint was written.
  absl::StatusOr<v1::RestoreRowsResponse> RestoreRows(const v1::RestoreRowsRequest& request) {
    std::vector<std::string> row_ids(request.row_ids().begin(), request.row_ids().end());
    TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(request.directory()));
    for (const std::string& name : names) {
      if (!name.starts_with("rows-") || row_ids.empty()) continue;
      TROUPE_RETURN_IF_ERROR(shard_->Load(row_ids, request.directory() + "/" + name));
    }
    return v1::RestoreRowsResponse();
  }

  RowStoreService& rows() { return rows_; }

 private:
  std::string ShardName() const { return "rollout/" + std::to_string(context_->self().path.replica); }

  absl::Status OpenShard() {
    std::string directory = RowsDirectory(context_->setting().output_dir, context_->self().path.job.value()) +
                            "/rollout-" + std::to_string(context_->self().path.replica);
    RowShardOptions options;
    options.directory = directory;
    options.name = ShardName();
    TROUPE_ASSIGN_OR_RETURN(shard_, RowShard::Open(std::move(options)));
    rows_.Attach(shard_.get());
    return absl::OkStatus();
  }

  void Receive(const v1::WeightManifest& manifest, const Promise<v1::UpdateWeightsResponse>& promise) {
    Monotonic began = MonotonicNow();
    absl::StatusOr<ModelWeights> weights = Prepare(manifest, began);
    if (!weights.ok()) {
      transferring_ = false;
      return promise.Set(weights.status());
    }
    double transfer_seconds = absl::ToDoubleSeconds(MonotonicNow() - began);
    ModelVersion version{manifest.version().attempt(), manifest.version().step()};
    loop_->Commit(*std::move(weights), version, OnUpdateOf(config_.rollout.on_update),
                  [this, manifest, promise, transfer_seconds](const absl::Status& status, absl::Duration pause) {
                    transferring_ = false;
                    if (!status.ok()) return promise.Set(status);
                    v1::UpdateWeightsResponse response;
                    *response.mutable_version() = manifest.version();
                    response.set_transfer_seconds(transfer_seconds);
                    response.set_pause_seconds(absl::ToDoubleSeconds(pause));
                    promise.Set(std::move(response));
                  });
  }

  // The version whole and verified, mapped; the old one serves on until the engine commits.
  absl::StatusOr<ModelWeights> Prepare(const v1::WeightManifest& manifest, Monotonic now) {
    if (manifest.total_bytes() != layout_.total_bytes) {
      return absl::InvalidArgumentError("the weights offered have " + std::to_string(manifest.total_bytes()) +
                                        " bytes, the model here " + std::to_string(layout_.total_bytes));
    }
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<TrainerSource> source, TrainerSource::Open(*context_));
    if (!SetSource(source.get())) return absl::CancelledError("the rollout is being stopped");
    absl::Status received = receiver_->Prepare(manifest, *source, now + kTransferTimeout);
    SetSource(nullptr);
    TROUPE_RETURN_IF_ERROR(received);
    TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const WeightSnapshot> snapshot, receiver_->Commit(manifest.version()));
    // The mapping is read only; the engine never writes to weights.
    std::span<const std::byte> bytes = snapshot->bytes();
    return ModelWeights::Map(layout_, {const_cast<std::byte*>(bytes.data()), bytes.size()}, snapshot);
  }

  // What Stop cancels. False: it was called already.
  bool SetSource(TrainerSource* source) {
    MutexLock lock(source_mutex_);
    source_ = source;
    return !stopping_;
  }

  ActorContext* context_ = nullptr;
  JobConfig config_;
  ModelConfig model_config_;
  WeightLayout layout_;
  JobPrompts prompts_;
  RowStoreService rows_;
  std::unique_ptr<RowShard> shard_;
  rollout::GenerateSetting setting_;
  std::unique_ptr<ObjectClient> objects_;
  std::unique_ptr<WeightReceiver> receiver_;
  std::unique_ptr<rollout::EngineLoop> loop_;
  std::atomic<bool> transferring_{false};
  std::thread transfer_;
  Mutex source_mutex_;
  TrainerSource* source_ ABSL_GUARDED_BY(source_mutex_) = nullptr;  // of the transfer that goes on
  bool stopping_ ABSL_GUARDED_BY(source_mutex_) = false;
};

Rollout::Rollout() : impl_(std::make_unique<Impl>()) {}
Rollout::~Rollout() = default;

std::vector<grpc::Service*> Rollout::Services() { return {&impl_->rows()}; }
absl::Status Rollout::OnStart(ActorContext& context) { return impl_->Start(context); }
void Rollout::OnStop(std::string_view) { impl_->Stop(); }
v1::RolloutState Rollout::GetState(const v1::GetRolloutStateRequest&) { return impl_->GetState(); }
Future<v1::GenerateResponse> Rollout::Generate(const v1::GenerateRequest& request) { return impl_->Generate(request); }
Future<v1::UpdateWeightsResponse> Rollout::UpdateWeights(const v1::UpdateWeightsRequest& request) {
  return impl_->UpdateWeights(request);
}
absl::StatusOr<v1::SyncRowsResponse> Rollout::SyncRows(const v1::SyncRowsRequest& request) {
  return impl_->SyncRows(request);
}
absl::StatusOr<v1::ReleaseRowsResponse> Rollout::ReleaseRows(const v1::ReleaseRowsRequest& request) {
  return impl_->ReleaseRows(request);
}
absl::StatusOr<v1::RestoreRowsResponse> Rollout::RestoreRows(const v1::RestoreRowsRequest& request) {
  return impl_->RestoreRows(request);
}

TROUPE_ACTOR_REGISTER(Rollout, TROUPE_INIT());

}  // namespace troupe
