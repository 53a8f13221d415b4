// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/controller.h"

#include <cstdlib>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "actors/data/job_prompts.h"
#include "actors/pipeline/controller_log.h"
#include "actors/pipeline/head_client.h"
#include "actors/pipeline/job_model.h"
#include "actors/pipeline/pipeline.h"
#include "actors/pipeline/pipeline_state.h"
#include "actors/pipeline/role_calls.h"
#include "actors/pipeline/run_files.h"
#include "actors/reward/reward_function.h"
#include "actors/trainer/core/checkpoint.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/file_lock.h"
#include "runtime/worker/actor_directory.h"

namespace troupe {
namespace {

// How often the machine is looked at when nothing happens: for stop requests, which have no event of their own.
constexpr absl::Duration kTickMax = absl::Milliseconds(200);

// What is wrong with a reward function before it ran once: told here, where it ends the job at once.
absl::Status CheckRewards(const std::vector<RewardFunction>& functions) {
  for (const RewardFunction& function : functions) {
    std::string file = function.python.substr(0, function.python.rfind(':'));
    if (!file.empty() && !FileExists(file)) return absl::NotFoundError("roles.reward.python: there is no file " + file);
    if (!function.function.empty()) TROUPE_RETURN_IF_ERROR(MakeBuiltinReward(function).status());
  }
  return absl::OkStatus();
}

}  // namespace

class Controller::Impl {
 public:
  absl::Status Start(ActorContext& context) {
    context_ = &context;
    head_ = std::make_unique<HeadClient>(context.HeadChannel(), context.self());
    const std::string& output_dir = context.setting().output_dir;
    TROUPE_ASSIGN_OR_RETURN(lock_, FileLock::Acquire(output_dir + "/controller.lock", "another job's controller"));
    absl::Status status = Prepare();
    if (!status.ok()) {  // not worth a restart: the same would be wrong again
      std::fprintf(stderr, "%s\n", StatusText(status).c_str());
      v1::FinishJobRequest finish;
      finish.set_reason(MessageOf(status));
      finish.set_error_code(static_cast<int>(status.code()));
      head_->Finish(std::move(finish));
      return absl::OkStatus();
    }
    listener_ = context.directory().AddListener([this](const DirectoryEntry& entry) { OnEntry(entry); });
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  void Stop() {
    if (listener_ >= 0) context_->directory().RemoveListener(listener_);
    {
      MutexLock lock(queue_->mutex);
      queue_->stopping = true;
      queue_->changed.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
    head_.reset();
  }

  v1::JobProgress GetProgress() {
    MutexLock lock(queue_->mutex);
    return queue_->progress;
  }

 private:
  // Outlives the controller: answers may come after its end.
  struct Queue {
    Mutex mutex;
    ConditionVariable changed;
    std::deque<PipelineEvent> events ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    v1::JobProgress progress ABSL_GUARDED_BY(mutex);

    void Push(PipelineEvent event) {
      MutexLock lock(mutex);
      events.push_back(std::move(event));
      changed.NotifyAll();
    }
  };

  absl::Status Prepare() {
    const ActorSetting& setting = context_->setting();
    TROUPE_ASSIGN_OR_RETURN(config_, JobOf(*context_));
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<ModelSource> source, ModelSource::Open(config_.model.path));
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(config_.model.path));
    TROUPE_ASSIGN_OR_RETURN(JobPrompts prompts,
                            LoadJobPrompts(config_, *tokenizer, source->config().max_position_embeddings));
    TROUPE_RETURN_IF_ERROR(CheckRewards(config_.reward.functions));
    TROUPE_ASSIGN_OR_RETURN(
        files_, RunFiles::Open(setting.output_dir, context_->self().path.job.value(), config_.trainer.logger));
    checkpoints_dir_ = setting.output_dir + "/checkpoints";
    PipelineOptions options = PipelineOptionsOf(config_, prompts.val, checkpoints_dir_);
    PipelineDurable durable(options, PromptOrderOf(config_, prompts.train));
    fresh_ = durable;
    std::vector<std::string> told;
    log_options_ = {.output_dir = setting.output_dir,
                    .job_id = context_->self().path.job.value(),
                    .resume = config_.trainer.resume,
                    .rollout_replicas = options.rollout_replicas,
                    .last_attempt = files_->last_attempt()};
    TROUPE_ASSIGN_OR_RETURN(log_, ControllerLog::Open(log_options_, durable, &told));
    for (const std::string& text : told) files_->Write(Note{"resume", text});
    if (prompts.train.filtered() > 0) {
      files_->Write(Note{"prompts_filtered", std::to_string(prompts.train.filtered()) +
                                                 (prompts.train.filtered() == 1 ? " prompt is" : " prompts are") +
                                                 " too long and left out, the first in line " +
                                                 std::to_string(prompts.train.filtered_lines()[0]) + " of " +
                                                 config_.data.train});
    }
    state_ = std::make_unique<PipelineState>(std::move(options), std::move(durable));
    return absl::OkStatus();
  }

  void OnEntry(const DirectoryEntry& entry) {
    const ActorPath& path = entry.life().path;
    if (path.role == "controller") return;
    WorkerName name{path.role, path.replica};
    uint64_t incarnation = entry.life().incarnation;
    if (entry.ready()) {
      up_[name] = incarnation;
      queue_->Push(WorkerUp{name, incarnation});
      return;
    }
    // A head that was restarted does not know yet that a life is ready: unknown is not failed.
    auto known = up_.find(name);
    bool was_up = known != up_.end() && known->second == incarnation;
    if (was_up && !entry.ended()) return;
    queue_->Push(WorkerDown{name, incarnation});
  }

  void Run() {
    bool stop_told = false;
    while (!head_->superseded()) {
      std::deque<PipelineEvent> events;
      Monotonic now = MonotonicNow();
      {
        MutexLock lock(queue_->mutex);
        Queue& queue = *queue_;
        Monotonic wake = std::min(state_->NextTick(now), now + kTickMax);
        queue.changed.WaitUntil(
            lock, wake, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return queue.stopping || !queue.events.empty(); });
        if (queue.stopping) return;
        events = std::exchange(queue.events, {});
      }
      if (!stop_told && context_->directory().stop_requested()) {
        stop_told = true;
        events.push_back(StopRequested{});
      }
      if (events.empty()) events.push_back(Tick{});
      for (const PipelineEvent& event : events) {
        if (!Handle(event)) return;
      }
      Report();
    }
    std::fprintf(stderr, "another controller of this job lives: this one ends\n");
    std::_Exit(1);  // at once: nothing it does may count any more
  }

  // Records first, then the actions that rest on them. False: the job is over.
  bool Handle(const PipelineEvent& event) {
    PipelineState::Output output = state_->Step(event, MonotonicNow());
    absl::Status logged = log_->Append(output.records);
    if (logged.ok() && !output.records.empty() && log_->IsLong()) Compact();
    if (!logged.ok()) {
      Finish({.succeeded = false, .reason = "the controller's log cannot be written: " + StatusText(logged)});
      return false;
    }
    for (PipelineAction& action : output.actions) std::visit([this](auto& a) { Carry(a); }, action);
    if (!lost_.ok()) {
      Finish({.succeeded = false, .reason = MessageOf(lost_) + "; checkpoints that are there can be gone on with"});
      return false;
    }
    return !state_->finished();
  }

  // Only makes recovery shorter: the job goes on with the long log.
  void Compact() {
    absl::Status compacted = log_->Compact(state_->durable().Snapshot());
    if (!compacted.ok()) {
      files_->Write(Note{
          "controller_log",
          "controller.log stays long; it could not be begun anew, which is tried again: " + StatusText(compacted)});
    }
  }

  void Carry(CallRole& call) {
    SendRoleCall(*context_, call, ClassOf(call.worker.role),
                 [queue = queue_](PipelineEvent event) { queue->Push(std::move(event)); });
  }
  // "": the built-in one.
  std::string ClassOf(const std::string& role) const {
    if (role == "reward") return config_.reward.role.class_name;
    auto it = config_.roles.find(role);
    return it == config_.roles.end() ? "" : it->second.class_name;
  }
  void Carry(CheckpointBegin& prepare) {
    absl::StatusOr<std::string> directory = BeginCheckpoint(checkpoints_dir_, prepare.step);
    if (!directory.ok()) queue_->Push(CheckpointWritten{prepare.step, directory.status()});
  }
  void Carry(CheckpointAbandon& abandon) {
    std::string aside = checkpoints_dir_ + "/step_" + std::to_string(abandon.step) + ".tmp";
    if (absl::Status removed = RemoveTree(aside); !removed.ok())
      std::fprintf(stderr, "%s\n", StatusText(removed).c_str());
  }
  void Carry(CheckpointCommit& commit) {
    absl::Status status = Commit(commit);
    queue_->Push(CheckpointWritten{commit.step, status});
  }
  // The log must not name a folder that is gone, also after a loss of power.
  void Carry(CheckpointPrune& prune) {
    absl::Status pruned = log_->Sync();
    if (pruned.ok()) pruned = PruneCheckpoints(checkpoints_dir_, prune.step, config_.trainer.max_checkpoints);
    if (!pruned.ok()) files_->Write(Note{"checkpoint_prune", StatusText(pruned)});
  }
  void Carry(CheckpointGiveUp& give_up) {
    absl::Status synced = log_->Sync();
    if (!synced.ok()) return files_->Write(Note{"checkpoint_given_up", StatusText(synced)});
    absl::StatusOr<std::vector<std::string>> told = GiveUpCheckpointsAfter(checkpoints_dir_, give_up.step);
    if (!told.ok()) return files_->Write(Note{"checkpoint_given_up", StatusText(told.status())});
    for (const std::string& text : *told) files_->Write(Note{"checkpoint_given_up", text});
  }
  void Carry(StepBack&) {
    std::vector<std::string> told;
    absl::StatusOr<v1::PipelineSnapshot> snapshot = SnapshotToGoBackTo(log_options_, *fresh_, &told);
    for (const std::string& text : told) files_->Write(Note{"checkpoint_damaged", text});
    queue_->Push(SteppedBack{snapshot.status(), snapshot.ok() ? *snapshot : v1::PipelineSnapshot()});
  }
  void Carry(WriteMetrics& line) {
    files_->Write(line);
    if (lost_.ok()) lost_ = log_->CheckInPlace();
    if (lost_.ok()) lost_ = files_->CheckInPlace();
  }
  void Carry(WriteSample& sample) { files_->Write(sample); }
  void Carry(Note& note) { files_->Write(note); }
  void Carry(FinishPipeline& finish) { Finish(finish); }

  absl::Status Commit(const CheckpointCommit& commit) {
    std::string part = checkpoints_dir_ + "/step_" + std::to_string(commit.step) + ".tmp/" + kControllerPart;
    TROUPE_RETURN_IF_ERROR(WriteFileAtomic(part, commit.snapshot.SerializeAsString()));
    return CommitCheckpoint(checkpoints_dir_, commit.step).status();
  }

  void Report() {
    v1::JobProgress progress = state_->Progress();
    progress.set_metrics_json(files_->newest_metrics());
    {
      MutexLock lock(queue_->mutex);
      queue_->progress = progress;
    }
    head_->Report(std::move(progress));
  }

  void Finish(const FinishPipeline& finish) {
    Report();
    v1::FinishJobRequest request;
    request.set_succeeded(finish.succeeded);
    request.set_interrupted(finish.interrupted);
    request.set_reason(finish.reason);
    request.set_error_code(finish.error_code);
    nlohmann::ordered_json summary;
    summary["state"] = finish.interrupted ? "interrupted" : finish.succeeded ? "succeeded" : "failed";
    summary["reason"] = finish.reason;
    summary["step"] = state_->durable().step();
    summary["total_steps"] = config_.trainer.total_steps;
    summary["attempt"] = state_->durable().attempt();
    summary["checkpoint_step"] = state_->durable().checkpoint_step();
    summary["metrics"] = nlohmann::ordered_json::parse(files_->newest_metrics(), nullptr, false);
    request.set_summary_json(summary.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    // Says to a later run in this folder whether there is anything left to do.
    absl::Status written = WriteFileAtomic(context_->setting().output_dir + "/summary.json", request.summary_json());
    if (!written.ok()) std::fprintf(stderr, "%s\n", StatusText(written).c_str());
    files_->Write(Note{finish.succeeded ? "finished" : "failed", finish.reason, /*routine=*/true});
    // Durable ones are in the checkpoint; what cannot be removed now goes when the next job begins here.
    if (finish.succeeded) RemoveTree(context_->setting().output_dir + "/rows").IgnoreError();
    head_->Finish(std::move(request));
  }

  ActorContext* context_ = nullptr;
  JobConfig config_;
  std::string checkpoints_dir_;
  absl::Status lost_;             // Not OK: files of the run are gone, so that what it does would be lost.
  std::optional<FileLock> lock_;  // Of the run's folder, while this process lives: its files have one writer.
  std::unique_ptr<HeadClient> head_;
  std::unique_ptr<RunFiles> files_;
  ControllerLogOptions log_options_;
  std::optional<PipelineDurable> fresh_;  // the job before its first event
  std::unique_ptr<ControllerLog> log_;
  std::unique_ptr<PipelineState> state_;  // of thread_
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::map<WorkerName, uint64_t> up_;  // lives that were ready; of the directory's one listener
  int listener_ = -1;
  std::thread thread_;
};

Controller::Controller() : impl_(std::make_unique<Impl>()) {}
Controller::~Controller() = default;
absl::Status Controller::OnStart(ActorContext& context) { return impl_->Start(context); }
void Controller::OnStop(std::string_view) { impl_->Stop(); }
v1::JobProgress Controller::GetProgress() { return impl_->GetProgress(); }

TROUPE_ACTOR_REGISTER(Controller, TROUPE_INIT());

}  // namespace troupe
