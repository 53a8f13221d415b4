// SPDX-License-Identifier: Apache-2.0
// Events, calls and their failures. The other parts of the machine stand in pipeline_{rollouts,scoring,trainer,...}.cc.
#include "actors/pipeline/pipeline_state.h"

#include <algorithm>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

// A failure that says nothing against the request: the worker, or a shard it reads, was away or too busy.
bool MayHelpToRepeat(const absl::Status& status) {
  if (CallErrorKindOf(status) == v1::CallError::CALL_TOO_LARGE) return false;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kNotFound:            // rows of a shard that is being recovered; a version no longer kept
    case absl::StatusCode::kFailedPrecondition:  // a version that is not the one expected: state is asked for again
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Duration CallBackoff(int failures) {
  return std::min(absl::Seconds(5), absl::Milliseconds(100) * (1 << std::min(failures - 1, 10)));
}

// The others ask or prepare: that they went well says nothing for the work that failed before.
bool PipelineState::IsWork(CallKind kind) {
  return kind != CallKind::kRolloutState && kind != CallKind::kRestore && kind != CallKind::kUpdateWeights &&
         kind != CallKind::kTrainerState && kind != CallKind::kLoad && kind != CallKind::kRelease;
}

PipelineState::PipelineState(PipelineOptions options, PipelineDurable durable)
    : options_(std::move(options)), durable_(std::move(durable)) {
  // Perhaps its line was not written before the controller died; the writer knows.
  metrics_held_ = (durable_.step() > 0 || durable_.validated_step() >= 0) && durable_.resumed_from().empty();
}

PipelineState::Output PipelineState::Step(const PipelineEvent& event, Monotonic now) {
  Output output;
  out_ = &output;
  if (!finished_) {
    if (!step_began_) step_began_ = now;
    if (auto* up = std::get_if<WorkerUp>(&event)) OnWorkerUp(*up, now);
    if (auto* down = std::get_if<WorkerDown>(&event)) {
      Worker* worker = Find(down->worker);
      if (worker != nullptr && worker->up && worker->incarnation <= down->incarnation) OnWorkerDown(down->worker, now);
    }
    if (auto* done = std::get_if<CallDone>(&event)) OnCallDone(*done, now);
    if (auto* failed = std::get_if<CallFailed>(&event)) OnCallFailed(*failed, now);
    if (auto* written = std::get_if<CheckpointWritten>(&event)) OnCheckpointWritten(*written, now);
    if (auto* back = std::get_if<SteppedBack>(&event)) OnSteppedBack(*back, now);
    if (std::holds_alternative<StopRequested>(event)) stopping_ = true;
    if (!finished_) Advance(now);
  }
  out_ = nullptr;
  return output;
}

// Whatever is due and not under way is asked for. The order matters only for speed.
void PipelineState::Advance(Monotonic now) {
  if (metrics_held_ && !validation_ && !ValidationDue()) WriteHeldMetrics();
  AdvanceRollouts(now);
  AdvanceScorers(now);
  AdvanceValidation(now);
  AdvanceTrainer(now);
  AdvanceDispatch(now);
  AdvanceFinish();
  AdvanceStepBack();
  ReleaseRows(now);
}

void PipelineState::OnWorkerUp(const WorkerUp& event, Monotonic now) {
  Worker& worker = workers_[event.worker];
  if (event.incarnation <= worker.incarnation) return;  // a late or repeated report
  if (worker.up) OnWorkerDown(event.worker, now);
  worker = Worker{.up = true, .incarnation = event.incarnation};
}

void PipelineState::OnWorkerDown(const WorkerName& name, Monotonic now) {
  Worker& worker = workers_[name];
  worker.up = false;
  worker.failures = 0;
  std::vector<uint64_t> lost;
  for (const auto& [id, call] : calls_) {
    if (call.worker == name) lost.push_back(id);
  }
  for (uint64_t id : lost) {
    Call call = *TakeCall(id, now);
    if (call.kind == CallKind::kGenerate) CountDeaths(call);
    if (checkpoint_ && checkpoint_->calls.contains(id)) {
      AbandonCheckpoint(absl::UnavailableError(name.ToString() + " died while it wrote its part"), now);
    }
  }
  durable_.leases().EndConsumer({name.ToString(), worker.incarnation});
  if (name.role == "actor") published_.reset();
}

void PipelineState::OnCallDone(const CallDone& event, Monotonic now) {
  std::optional<Call> call = TakeCall(event.call_id, now);
  if (!call) return;  // of a worker that died, or of an earlier life of the controller
  Worker& worker = workers_[call->worker];
  if (IsWork(call->kind)) worker.failures = 0;
  const RoleResponse& response = event.response;
  if (auto* state = std::get_if<v1::RolloutState>(&response)) worker.weights = *state;
  if (std::holds_alternative<v1::RestoreRowsResponse>(response)) worker.restored = true;
  if (auto* generated = std::get_if<v1::GenerateResponse>(&response)) {
    call->kind == CallKind::kValidate ? OnValidationRows(*call, *generated) : OnGenerated(*call, *generated, now);
  }
  if (auto* updated = std::get_if<v1::UpdateWeightsResponse>(&response)) {
    worker.weights.emplace();
    *worker.weights->mutable_version() = updated->version();
    worker.weights->set_weights_hash(call->weights_hash);
  }
  if (auto* scored = std::get_if<v1::ScoreResponse>(&response)) {
    call->kind == CallKind::kScoreValidation ? OnValidationScores(*call, *scored) : OnScored(*call, *scored);
  }
  if (std::holds_alternative<v1::LogProbsResponse>(response)) OnReferred(*call);
  if (auto* state = std::get_if<v1::TrainerState>(&response)) OnTrainerState(*call, worker, *state);
  if (auto* trained = std::get_if<v1::TrainStepResponse>(&response)) OnTrained(*call, worker, *trained, now);
  if (auto* published = std::get_if<v1::PublishResponse>(&response)) published_ = published->manifest();
  if (checkpoint_) checkpoint_->calls.erase(event.call_id);
}

void PipelineState::OnCallFailed(const CallFailed& event, Monotonic now) {
  bool of_checkpoint = checkpoint_ && checkpoint_->calls.contains(event.call_id);
  std::optional<Call> call = TakeCall(event.call_id, now);
  if (!call) return;
  Worker& worker = workers_[call->worker];
  if (call->kind == CallKind::kRelease) return;
  // Its death may be heard of here before the directory tells it.
  bool died = CallErrorKindOf(event.status) == v1::CallError::CALL_DIED;
  if (died && call->kind == CallKind::kGenerate) CountDeaths(*call);
  durable_.leases().EndConsumer({call->worker.ToString(), call->incarnation});
  if (of_checkpoint) return AbandonCheckpoint(event.status, now);
  if (call->kind == CallKind::kLoad && absl::IsDataLoss(event.status) && durable_.checkpoint_step() > 0) {
    damage_ = StatusText(event.status);
    return;
  }
  // What we believed of it may be wrong: ask again.
  worker.weights.reset();
  worker.loaded = false;
  worker.must_load = false;
  if (call->kind == CallKind::kUpdateWeights && event.status.code() == absl::StatusCode::kNotFound) published_.reset();
  ++worker.failures;
  worker.not_before = now + CallBackoff(worker.failures);
  std::string text = call->worker.ToString() + ": " + StatusText(event.status);
  // What a reward function says that it cannot do; of other roles INVALID_ARGUMENT would be our own mistake.
  bool of_user = call->worker.role == "reward" && absl::IsInvalidArgument(event.status) &&
                 CallErrorKindOf(event.status) == v1::CallError::CALL_HANDLER;
  if (!MayHelpToRepeat(event.status) || worker.failures >= kCallAttemptsMax) {
    return Fail(text, of_user ? event.status.raw_code() : 0);
  }
  if (worker.failures > 1) out_->actions.push_back(Note{"call_failed", text + "; trying again"});
}

void PipelineState::Record(v1::PipelineRecord record) {
  absl::Status applied = durable_.Apply(record);
  TROUPE_CHECK(applied.ok(), "PIPE-4: a record of our own fits the state: " + StatusText(applied));
  out_->records.push_back(std::move(record));
}

uint64_t PipelineState::Send(CallKind kind, const WorkerName& worker, RoleRequest request, Monotonic now,
                             Call details) {
  details.kind = kind;
  details.worker = worker;
  details.incarnation = workers_.at(worker).incarnation;
  details.started = now;
  if (BusyClock* clock = ClockOf(kind)) clock->Begin(now);
  uint64_t id = next_call_id_++;
  out_->actions.push_back(CallRole{id, worker, details.incarnation, std::move(request)});
  calls_[id] = std::move(details);
  return id;
}

uint64_t PipelineState::Send(CallKind kind, const WorkerName& worker, RoleRequest request, Monotonic now) {
  return Send(kind, worker, std::move(request), now, Call{});
}

std::optional<PipelineState::Call> PipelineState::TakeCall(uint64_t call_id, Monotonic now) {
  auto it = calls_.find(call_id);
  if (it == calls_.end()) return std::nullopt;
  Call call = std::move(it->second);
  calls_.erase(it);
  if (BusyClock* clock = ClockOf(call.kind)) clock->End(now);
  return call;
}

BusyClock* PipelineState::ClockOf(CallKind kind) {
  if (kind == CallKind::kGenerate) return &generating_;
  if (kind == CallKind::kScore) return &scoring_;
  if (kind == CallKind::kReference) return &referring_;
  if (kind == CallKind::kUpdateWeights) return &updating_weights_;
  return nullptr;
}

PipelineState::Worker* PipelineState::Find(const WorkerName& name) {
  auto it = workers_.find(name);
  return it == workers_.end() ? nullptr : &it->second;
}

bool PipelineState::Usable(const WorkerName& name, Monotonic now) {
  Worker* worker = Find(name);
  return worker != nullptr && worker->up && worker->not_before <= now;
}

int PipelineState::OpenCalls(const WorkerName& name, std::initializer_list<CallKind> kinds) const {
  int open = 0;
  for (const auto& [id, call] : calls_) {
    if (call.worker == name && std::find(kinds.begin(), kinds.end(), call.kind) != kinds.end()) ++open;
  }
  return open;
}

bool PipelineState::Calling(CallKind kind) const {
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& call) { return call.second.kind == kind; });
}

std::set<std::string> PipelineState::UsableShards() const {
  std::set<std::string> shards;
  for (const auto& [name, worker] : workers_) {
    bool restored = worker.restored || durable_.resumed_from().empty();
    if (name.role == "rollout" && worker.up && restored) shards.insert(name.ToString());
  }
  return shards;
}

// Rows that nobody needs any more. Lost requests cost disk until the job ends, nothing else.
void PipelineState::ReleaseRows(Monotonic now) {
  if (!damage_.empty()) return;  // what is released now may be needed again
  std::vector<std::string> rows = durable_.TakeReleased();
  rows.insert(rows.end(), to_release_.begin(), to_release_.end());
  to_release_.clear();
  if (rows.empty() || finished_) return;
  v1::ReleaseRowsRequest request;
  request.mutable_row_ids()->Add(rows.begin(), rows.end());
  for (const auto& [name, worker] : workers_) {
    if (name.role == "rollout" && worker.up) Send(CallKind::kRelease, name, request, now);
  }
}

void PipelineState::Fail(std::string reason, int error_code) {
  Finish({.succeeded = false, .reason = std::move(reason), .error_code = error_code});
}

void PipelineState::Finish(FinishPipeline finish) {
  if (finished_) return;
  WriteHeldMetrics();
  finished_ = true;
  out_->actions.push_back(std::move(finish));
}

Monotonic PipelineState::NextTick(Monotonic now) const {
  Monotonic next = checkpoint_not_before_ > now ? checkpoint_not_before_ : Monotonic::Infinite();
  for (const auto& [name, worker] : workers_) {
    if (worker.up && worker.not_before > now) next = std::min(next, worker.not_before);
  }
  return next;
}

}  // namespace troupe
