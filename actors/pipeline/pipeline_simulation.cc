// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/pipeline_simulation.h"

#include <algorithm>
#include <functional>

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
  if (committed_.empty()) {
    *record.mutable_snapshot() = FreshDurable().Snapshot();
  } else {
    *record.mutable_snapshot() = committed_.rbegin()->second;
    record.mutable_snapshot()->set_checkpoint_step(committed_.rbegin()->first);
    record.mutable_snapshot()->set_resumed_from(options_.pipeline.CheckpointDir(committed_.rbegin()->first));
    record.mutable_snapshot()->set_trainer_incarnation(0);
  }
  record.mutable_snapshot()->set_job_id(job_);
  log_ = {record};
  StartController();
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
  if (auto* call = std::get_if<CallRole>(&action)) calls_.push_back({*call, std::nullopt});
  if (auto* prepare = std::get_if<CheckpointBegin>(&action)) prepared_ = prepare->step;
  if (auto* commit = std::get_if<CheckpointCommit>(&action)) {
    committed_[commit->step] = commit->snapshot;
    std::string directory = options_.pipeline.CheckpointDir(commit->step);
    checkpoints_[directory] = checkpoints_[directory + ".tmp"];
    saved_rows_[directory] = saved_rows_[directory + ".tmp"];
    const TrainedHistory& saved = checkpoints_[directory];
    if (std::ssize(saved.steps) != commit->step) Violation("a checkpoint of another step than the trainer's");
    for (const auto& step : saved.steps) durable_rows_.insert(step.begin(), step.end());
    events_.push_back(CheckpointWritten{commit->step, absl::OkStatus()});
  }
  if (auto* line = std::get_if<WriteMetrics>(&action)) {  // of a value written twice the last attempt counts
    for (const auto& [name, value] : line->values) metrics_[line->step][name] = value;
  }
  if (auto* finish = std::get_if<FinishPipeline>(&action)) finish_ = *finish;
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
  Worker& worker = workers_[call.worker];
  CallDone done{call.call_id, {}};
  CallFailed away{call.call_id, absl::UnavailableError("away")};
  if (!worker.up || worker.incarnation != call.incarnation) return away;
  if (std::holds_alternative<v1::GetRolloutStateRequest>(call.request)) {
    v1::RolloutState state;
    *state.mutable_version() = worker.version;
    state.set_weights_hash(worker.version.step() == 0 ? 0 : worker.weights);
    done.response = state;
  } else if (auto* restore = std::get_if<v1::RestoreRowsRequest>(&call.request)) {
    for (const std::string& row : restore->row_ids()) {
      const auto& saved = saved_rows_[restore->directory()];
      if (saved.contains(row)) shards_[call.worker.ToString()][row] = saved.at(row);
    }
    done.response = v1::RestoreRowsResponse();
  } else if (auto* generate = std::get_if<v1::GenerateRequest>(&call.request)) {
    return Generate(call, *generate);
  } else if (auto* update = std::get_if<v1::UpdateWeightsRequest>(&call.request)) {
    auto source = published_.find(Key(update->manifest().version()));
    if (source == published_.end()) return CallFailed{call.call_id, absl::NotFoundError("not kept")};
    worker.version = update->manifest().version();
    worker.weights = source->second.weights;
    v1::UpdateWeightsResponse response;
    *response.mutable_version() = worker.version;
    done.response = response;
  } else if (auto* sync = std::get_if<v1::SyncRowsRequest>(&call.request)) {
    for (const std::string& row : sync->row_ids())
      saved_rows_[sync->directory()][row] = shards_[call.worker.ToString()].at(row);
    done.response = v1::SyncRowsResponse();
  } else if (auto* release = std::get_if<v1::ReleaseRowsRequest>(&call.request)) {
    for (const std::string& row : release->row_ids()) {
      shards_[call.worker.ToString()].erase(row);
    }
    done.response = v1::ReleaseRowsResponse();
  } else if (auto* score = std::get_if<v1::ScoreRequest>(&call.request)) {
    if (absl::Status fetched = Fetch(score->sources()); !fetched.ok()) return CallFailed{call.call_id, fetched};
    v1::ScoreResponse response;
    for (const v1::RowSource& source : score->sources()) {
      for (const std::string& row : source.row_ids()) {
        v1::RowScore* out = response.add_scores();
        out->set_row_id(row);
        uint64_t hash = HashOf(row);
        out->set_score(static_cast<double>(hash % 2));
        if (options_.program_fault_of > 0 && hash % options_.program_fault_of == 0) out->set_fault("program");
      }
    }
    done.response = response;
  } else if (auto* refer = std::get_if<v1::LogProbsRequest>(&call.request)) {
    if (absl::Status fetched = Fetch(refer->sources()); !fetched.ok()) return CallFailed{call.call_id, fetched};
    done.response = v1::LogProbsResponse();
  } else if (std::holds_alternative<v1::GetTrainerStateRequest>(call.request)) {
    v1::TrainerState state;
    state.set_loaded(trainer_loaded_);
    *state.mutable_version() = trainer_version_;
    done.response = state;
  } else if (auto* load = std::get_if<v1::LoadCheckpointRequest>(&call.request)) {
    trainer_history_ = load->directory().empty() ? TrainedHistory() : checkpoints_.at(load->directory());
    trainer_version_.set_attempt(load->attempt());
    trainer_version_.set_step(std::ssize(trainer_history_.steps));
    trainer_loaded_ = true;
    published_.clear();
    last_response_.reset();
    v1::TrainerState state;
    state.set_loaded(true);
    *state.mutable_version() = trainer_version_;
    done.response = state;
  } else if (auto* train = std::get_if<v1::TrainStepRequest>(&call.request)) {
    return Train(call, *train);
  } else if (std::holds_alternative<v1::PublishRequest>(call.request)) {
    v1::PublishResponse response;
    *response.mutable_manifest()->mutable_version() = trainer_version_;
    response.mutable_manifest()->set_hash(trainer_history_.weights);
    published_[Key(trainer_version_)] = trainer_history_;
    done.response = response;
  } else if (auto* save = std::get_if<v1::SaveCheckpointRequest>(&call.request)) {
    checkpoints_[save->directory()] = trainer_history_;
    done.response = v1::SaveCheckpointResponse();
  }
  return done;
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
  v1::TrainStepResponse response;
  *response.mutable_version() = after;
  if (request.publish()) {
    published_[Key(after)] = trainer_history_;
    *response.mutable_manifest()->mutable_version() = after;
    response.mutable_manifest()->set_hash(trainer_history_.weights);
  }
  last_response_ = response;
  return CallDone{call.call_id, response};
}

}  // namespace troupe
