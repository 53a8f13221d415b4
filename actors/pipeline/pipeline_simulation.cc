// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/pipeline_simulation.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "actors/pipeline/controller_log.h"
#include "runtime/base/check.h"

namespace troupe {
namespace {

constexpr int kEventsMax = 60000;

uint64_t HashOf(const std::string& text, uint64_t seed = 0) {
  uint64_t hash = 14695981039346656037ull ^ seed;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash ^ (hash >> 29);
}

std::string Key(const v1::WeightVersion& version) {
  return std::to_string(version.attempt()) + "," + std::to_string(version.step());
}

}  // namespace

PipelineSimulation::PipelineSimulation(SimulationOptions options)
    : options_(std::move(options)), random_(options_.seed), kills_left_(options_.kills) {
  options_.pipeline.checkpoints_dir = "checkpoints";
  const PipelineOptions& pipeline = options_.pipeline;
  for (int32_t i = 0; i < pipeline.rollout_replicas; ++i) workers_[{"rollout", i}];
  for (int32_t i = 0; i < pipeline.reward_replicas; ++i) workers_[{"reward", i}];
  for (int32_t i = 0; i < pipeline.reference_replicas; ++i) workers_[{"reference", i}];
  workers_[{"actor", 0}];
  v1::PipelineRecord record;
  *record.mutable_snapshot() = FreshDurable().Snapshot();
  record.mutable_snapshot()->set_job_id(job_);
  log_.push_back(record);
  StartController();
}

PipelineDurable PipelineSimulation::FreshDurable() const {
  std::vector<uint64_t> prompts(options_.prompts);
  for (uint64_t i = 0; i < options_.prompts; ++i) prompts[i] = i;
  return PipelineDurable(options_.pipeline, PromptOrder(prompts, true, 7));
}

void PipelineSimulation::StartController() {
  PipelineDurable durable = FreshDurable();
  for (const v1::PipelineRecord& record : log_) {
    absl::Status status = durable.Apply(record);
    if (!status.ok()) Violation("log: " + std::string(status.message()));
  }
  controller_ = std::make_unique<PipelineState>(options_.pipeline, std::move(durable));
  GiveUp(controller_->durable().step());
  events_.clear();
  calls_.clear();
  for (const auto& [name, worker] : workers_) {
    if (worker.up) events_.push_back(WorkerUp{name, worker.incarnation});
  }
}

void PipelineSimulation::Resume(std::optional<int> stop_after) {
  finish_.reset();
  options_.stop_after = stop_after;
  for (auto& [name, worker] : workers_) worker = {.incarnation = 0};
  for (auto& [shard, rows] : shards_) rows.clear();
  trainer_loaded_ = false;
  published_.clear();
  last_response_.reset();
  job_ += "+";
  v1::PipelineRecord record;
  *record.mutable_snapshot() = NewestCheckpoint();
  log_ = {record};
  StartController();
}

// As a job begins from it; the beginning if none is whole.
v1::PipelineSnapshot PipelineSimulation::NewestCheckpoint() const {
  for (auto it = committed_.rbegin(); it != committed_.rend(); ++it) {
    std::string directory = options_.pipeline.CheckpointDir(it->first);
    if (directory != damaged_) return ResumedSnapshot(it->second, job_, directory, options_.pipeline.rollout_replicas);
  }
  v1::PipelineSnapshot snapshot = FreshDurable().Snapshot();
  snapshot.set_job_id(job_);
  return snapshot;
}

bool PipelineSimulation::Run() {
  for (int i = 0; i < kEventsMax && !finish_; ++i) {
    now_ = now_ + absl::Milliseconds(1 + random_() % 50);
    if (options_.stop_after && i >= *options_.stop_after && i % 10 == 0) Deliver(StopRequested{});
    if (kills_left_ > 0 && random_() % 25 == 0) Kill();
    for (auto& [name, worker] : workers_) {
      if (worker.up || random_() % 4 != 0) continue;
      worker = {.incarnation = worker.incarnation + 1, .up = true};
      if (name.role == "actor") trainer_loaded_ = false, last_response_.reset();
      events_.push_back(WorkerUp{name, worker.incarnation});
    }
    // One of: a worker handles a call, an event reaches the controller, time passes.
    size_t choice = random_() % (calls_.size() + events_.size() + 1);
    if (choice < calls_.size()) {
      PendingCall& pending = calls_[choice];
      if (!pending.answer) {
        pending.answer = Handle(pending.call);
      } else {
        PipelineEvent answer = *pending.answer;
        calls_.erase(calls_.begin() + static_cast<long>(choice));
        Deliver(answer);
      }
    } else if (choice < calls_.size() + events_.size()) {
      Deliver([&] {
        PipelineEvent event = events_.front();
        events_.erase(events_.begin());
        return event;
      }());
    } else {
      Deliver(Tick{});
    }
  }
  return finish_.has_value();
}

void PipelineSimulation::Kill() {
  --kills_left_;
  size_t victim = random_() % (workers_.size() + 1);
  if (victim == workers_.size()) return StartController();
  auto it = std::next(workers_.begin(), static_cast<long>(victim));
  if (!it->second.up) return;
  it->second.up = false;
  events_.push_back(WorkerDown{it->first, it->second.incarnation});
  for (PendingCall& pending : calls_) {  // answers that had not left are lost
    if (pending.call.worker == it->first)
      pending.answer = CallFailed{pending.call.call_id, absl::UnavailableError("died")};
  }
}

void PipelineSimulation::Deliver(const PipelineEvent& event) {
  PipelineState::Output output = controller_->Step(event, now_);
  log_.insert(log_.end(), output.records.begin(), output.records.end());
  if (!output.records.empty() && random_() % 16 == 0) CheckReplay();
  if (kills_left_ > 0 && random_() % 60 == 0) {  // dies after its log was written, before the actions leave
    --kills_left_;
    return StartController();
  }
  for (const PipelineAction& action : output.actions) Carry(action);
}

void PipelineSimulation::CheckReplay() {
  PipelineDurable replayed = FreshDurable();
  for (const v1::PipelineRecord& record : log_) {
    if (!replayed.Apply(record).ok()) Violation("PIPE-4: a record does not apply");
  }
  if (replayed.Snapshot().DebugString() != controller_->durable().Snapshot().DebugString()) {
    Violation("PIPE-4: replaying the log gives another state");
  }
}

void PipelineSimulation::Carry(const PipelineAction& action) {
  if (auto* call = std::get_if<CallRole>(&action)) Call(*call);
  if (std::holds_alternative<CheckpointBegin>(action)) ++checkpoints_begun_;
  if (auto* commit = std::get_if<CheckpointCommit>(&action)) Commit(*commit);
  if (auto* prune = std::get_if<CheckpointPrune>(&action)) Prune(prune->step);
  if (auto* give_up = std::get_if<CheckpointGiveUp>(&action)) GiveUp(give_up->step);
  if (std::holds_alternative<StepBack>(action)) events_.push_back(SteppedBack{absl::OkStatus(), NewestCheckpoint()});
  if (auto* line = std::get_if<WriteMetrics>(&action)) {  // of a value written twice the last attempt counts
    for (const auto& [name, value] : line->values) metrics_[line->step][name] = value;
  }
  if (auto* finish = std::get_if<FinishPipeline>(&action)) finish_ = *finish;
}

void PipelineSimulation::Call(const CallRole& call) {
  if (options_.save_failures > 0 && std::holds_alternative<v1::SaveCheckpointRequest>(call.request)) {
    --options_.save_failures;
    events_.push_back(CallFailed{call.call_id, absl::UnavailableError("cannot be reached")});
    return;
  }
  calls_.push_back({call, std::nullopt});
}

void PipelineSimulation::Commit(const CheckpointCommit& commit) {
  std::string directory = options_.pipeline.CheckpointDir(commit.step);
  committed_[commit.step] = commit.snapshot;
  if (commit.step == options_.damaged_step) damaged_ = std::exchange(damaged_step_made_, true) ? "" : directory;
  checkpoints_[directory] = checkpoints_[directory + ".tmp"];
  saved_rows_[directory] = saved_rows_[directory + ".tmp"];
  const TrainedHistory& saved = checkpoints_[directory];
  if (std::ssize(saved.steps) != commit.step) Violation("a checkpoint of another step than the trainer's");
  for (const auto& step : saved.steps) durable_rows_.insert(step.begin(), step.end());
  events_.push_back(CheckpointWritten{commit.step, absl::OkStatus()});
}

void PipelineSimulation::Prune(int64_t step) {
  if (!committed_.empty() && committed_.rbegin()->first > step) Violation("a later checkpoint was not given up");
  while (options_.max_checkpoints > 0 && std::ssize(committed_) > options_.max_checkpoints) {
    checkpoints_.erase(options_.pipeline.CheckpointDir(committed_.begin()->first));
    committed_.erase(committed_.begin());
  }
}

void PipelineSimulation::GiveUp(int64_t step) {
  while (!committed_.empty() && committed_.rbegin()->first > step) {
    checkpoints_.erase(options_.pipeline.CheckpointDir(committed_.rbegin()->first));
    committed_.erase(std::prev(committed_.end()));
  }
}

absl::Status PipelineSimulation::Fetch(const google::protobuf::RepeatedPtrField<v1::RowSource>& sources) {
  for (const v1::RowSource& source : sources) {
    WorkerName shard{"rollout", std::stoi(source.shard().substr(8))};
    if (!workers_[shard].up) return absl::UnavailableError("a shard is away");
    for (const std::string& row : source.row_ids()) {
      if (!shards_[source.shard()].contains(row)) return absl::NotFoundError(row);
    }
  }
  return absl::OkStatus();
}

PipelineEvent PipelineSimulation::Handle(const CallRole& call) {
  const Worker& worker = workers_[call.worker];
  if (!worker.up || worker.incarnation != call.incarnation)
    return CallFailed{call.call_id, absl::UnavailableError("away")};
  if (call.worker.role == "rollout") return HandleRollout(call);
  return call.worker.role == "actor" ? HandleTrainer(call) : HandleScorer(call);
}

PipelineEvent PipelineSimulation::HandleRollout(const CallRole& call) {
  Worker& worker = workers_[call.worker];
  std::map<std::string, uint64_t>& rows = shards_[call.worker.ToString()];
  if (auto* generate = std::get_if<v1::GenerateRequest>(&call.request)) return Generate(call, *generate);
  if (auto* restore = std::get_if<v1::RestoreRowsRequest>(&call.request)) {
    const std::map<std::string, uint64_t>& saved = saved_rows_[restore->directory()];
    for (const std::string& row : restore->row_ids()) {
      if (saved.contains(row)) rows[row] = saved.at(row);
    }
    return CallDone{call.call_id, v1::RestoreRowsResponse()};
  }
  if (auto* update = std::get_if<v1::UpdateWeightsRequest>(&call.request)) {
    auto source = published_.find(Key(update->manifest().version()));
    if (source == published_.end()) return CallFailed{call.call_id, absl::NotFoundError("not kept")};
    worker.version = update->manifest().version();
    worker.weights = source->second.weights;
    v1::UpdateWeightsResponse response;
    *response.mutable_version() = worker.version;
    return CallDone{call.call_id, response};
  }
  if (auto* sync = std::get_if<v1::SyncRowsRequest>(&call.request)) {
    for (const std::string& row : sync->row_ids()) saved_rows_[sync->directory()][row] = rows.at(row);
    return CallDone{call.call_id, v1::SyncRowsResponse()};
  }
  if (auto* release = std::get_if<v1::ReleaseRowsRequest>(&call.request)) {
    for (const std::string& row : release->row_ids()) rows.erase(row);
    return CallDone{call.call_id, v1::ReleaseRowsResponse()};
  }
  v1::RolloutState state;
  *state.mutable_version() = worker.version;
  state.set_weights_hash(worker.version.step() == 0 ? 0 : worker.weights);
  return CallDone{call.call_id, state};
}

PipelineEvent PipelineSimulation::HandleScorer(const CallRole& call) {
  auto* score = std::get_if<v1::ScoreRequest>(&call.request);
  absl::Status fetched = Fetch(score ? score->sources() : std::get<v1::LogProbsRequest>(call.request).sources());
  if (!fetched.ok()) return CallFailed{call.call_id, fetched};
  if (score == nullptr) return CallDone{call.call_id, v1::LogProbsResponse()};
  if (options_.score_failures > 0) {
    --options_.score_failures;
    return CallFailed{call.call_id, options_.score_failure};
  }
  v1::ScoreResponse response;
  for (const v1::RowSource& source : score->sources()) {
    for (const std::string& row : source.row_ids()) {
      v1::RowScore* out = response.add_scores();
      out->set_row_id(row);
      uint64_t hash = HashOf(row);
      out->set_score(static_cast<double>(hash % 2));
      (*out->mutable_metrics())["right"] = out->score();
      if (options_.program_fault_of > 0 && hash % options_.program_fault_of == 0) out->set_fault("program");
    }
  }
  return CallDone{call.call_id, response};
}

PipelineEvent PipelineSimulation::HandleTrainer(const CallRole& call) {
  if (auto* load = std::get_if<v1::LoadCheckpointRequest>(&call.request)) return Load(call, *load);
  if (auto* train = std::get_if<v1::TrainStepRequest>(&call.request)) return Train(call, *train);
  if (auto* save = std::get_if<v1::SaveCheckpointRequest>(&call.request)) {
    checkpoints_[save->directory()] = trainer_history_;
    return CallDone{call.call_id, v1::SaveCheckpointResponse()};
  }
  if (std::holds_alternative<v1::PublishRequest>(call.request)) {
    v1::PublishResponse response;
    if (absl::Status status = Publish(response.mutable_manifest()); !status.ok())
      return CallFailed{call.call_id, status};
    return CallDone{call.call_id, response};
  }
  v1::TrainerState state;
  state.set_loaded(trainer_loaded_);
  *state.mutable_version() = trainer_version_;
  return CallDone{call.call_id, state};
}

PipelineEvent PipelineSimulation::Load(const CallRole& call, const v1::LoadCheckpointRequest& request) {
  if (!damaged_.empty() && request.directory() == damaged_) {
    return CallFailed{call.call_id, absl::DataLossError(damaged_ + " is damaged")};
  }
  if (!request.directory().empty() && !checkpoints_.contains(request.directory())) {
    Violation("a checkpoint is loaded that was removed: " + request.directory());
    return CallFailed{call.call_id, absl::NotFoundError(request.directory())};
  }
  trainer_history_ = request.directory().empty() ? TrainedHistory() : checkpoints_.at(request.directory());
  trainer_version_.set_attempt(request.attempt());
  trainer_version_.set_step(std::ssize(trainer_history_.steps));
  trainer_loaded_ = true;
  published_.clear();
  last_response_.reset();
  v1::TrainerState state;
  state.set_loaded(true);
  *state.mutable_version() = trainer_version_;
  return CallDone{call.call_id, state};
}

PipelineEvent PipelineSimulation::Generate(const CallRole& call, const v1::GenerateRequest& request) {
  Worker& rollout = workers_[call.worker];
  if (rollout.version.step() < request.version().step()) {
    return CallFailed{call.call_id, absl::FailedPreconditionError("weights too old")};
  }
  if (trainer_version_.step() >= options_.disk_full_at) {
    return CallFailed{call.call_id, absl::ResourceExhaustedError("no space in the folder")};
  }
  v1::GenerateResponse response;
  for (const v1::PromptTask& task : request.prompts()) {
    int every = options_.not_generated_of;
    if (every > 0 && HashOf(task.group_id()) % static_cast<uint64_t>(every) == 0) continue;
    for (int32_t i = 0; i < task.n(); ++i) {
      v1::RowMeta* row = response.add_rows();
      row->set_row_id(task.group_id() + "-" + std::to_string(i));
      row->set_group_id(task.group_id());
      row->set_sample_index(i);
      row->set_shard(call.worker.ToString());
      row->set_response_length(3);
      v1::VersionSpan* span = row->add_spans();
      *span->mutable_version() = rollout.version;
      span->set_end(3);
      auto& rows = shards_[call.worker.ToString()];
      if (!rows.contains(row->row_id())) rows[row->row_id()] = HashOf(row->row_id(), rollout.weights);
    }
  }
  return CallDone{call.call_id, response};
}

PipelineEvent PipelineSimulation::Train(const CallRole& call, const v1::TrainStepRequest& request) {
  v1::WeightVersion after = request.expected();
  after.set_step(after.step() + 1);
  if (trainer_loaded_ && last_response_ && Key(trainer_version_) == Key(after))
    return CallDone{call.call_id, *last_response_};
  if (!trainer_loaded_ || Key(trainer_version_) != Key(request.expected())) {
    return CallFailed{call.call_id, absl::FailedPreconditionError("another version")};
  }
  if (absl::Status fetched = Fetch(request.sources()); !fetched.ok()) {
    if (absl::IsNotFound(fetched)) Violation("PIPE-3: a leased row was released: " + std::string(fetched.message()));
    return CallFailed{call.call_id, fetched};
  }
  std::map<std::string, std::string> shard_of;
  for (const v1::RowSource& source : request.sources()) {
    for (const std::string& row : source.row_ids()) shard_of[row] = source.shard();
  }
  std::vector<std::string> rows;
  for (const v1::TrainRow& row : request.rows()) {
    rows.push_back(row.row_id());
    uint64_t content = shards_[shard_of.at(row.row_id())].at(row.row_id());
    trainer_history_.weights = HashOf(row.row_id() + std::to_string(row.reward()), trainer_history_.weights ^ content);
  }
  trainer_history_.steps.push_back(rows);
  trainer_version_ = after;
  last_response_.emplace();
  *last_response_->mutable_version() = after;
  if (request.publish()) {  // when it fails the step was taken all the same
    v1::WeightManifest manifest;
    if (absl::Status status = Publish(&manifest); !status.ok()) return CallFailed{call.call_id, status};
    *last_response_->mutable_manifest() = manifest;
  }
  return CallDone{call.call_id, *last_response_};
}

absl::Status PipelineSimulation::Publish(v1::WeightManifest* manifest) {
  if (options_.publish_failures > 0 && trainer_version_.step() > 1) {
    --options_.publish_failures;
    return absl::ResourceExhaustedError("no memory for another version");
  }
  *manifest->mutable_version() = trainer_version_;
  manifest->set_hash(trainer_history_.weights);
  published_[Key(trainer_version_)] = trainer_history_;
  return absl::OkStatus();
}

}  // namespace troupe
