// SPDX-License-Identifier: Apache-2.0
// Rollouts: which weights they hold, which groups they make.
#include <algorithm>
#include <iterator>
#include <limits>

#include "actors/pipeline/pipeline_state.h"

namespace troupe {

// A rollout is asked what it holds, gets back the rows of a checkpoint, and then each newer version of the weights.
void PipelineState::AdvanceRollouts(Monotonic now) {
  for (auto& [name, rollout] : workers_) {
    if (name.role != "rollout" || !Usable(name, now)) continue;
    if (!rollout.weights && OpenCalls(name, {CallKind::kRolloutState, CallKind::kUpdateWeights}) == 0) {
      Send(CallKind::kRolloutState, name, v1::GetRolloutStateRequest(), now);
    }
    if (!rollout.restored && !durable_.resumed_from().empty() && OpenCalls(name, {CallKind::kRestore}) == 0) {
      v1::RestoreRowsRequest request;
      request.set_directory(durable_.resumed_from());
      for (const v1::RowMeta& row : durable_.index().QueuedRows()) {
        if (row.shard() == name.ToString()) request.add_row_ids(row.row_id());
      }
      Send(CallKind::kRestore, name, request, now);
    }
    bool busy = OpenCalls(name, {CallKind::kRolloutState, CallKind::kUpdateWeights, CallKind::kValidate}) > 0;
    if (rollout.weights && !busy && published_ && !WeightsCurrent(rollout)) {
      v1::UpdateWeightsRequest request;
      *request.mutable_manifest() = *published_;
      Call details;
      details.weights_hash = published_->hash();
      Send(CallKind::kUpdateWeights, name, std::move(request), now, std::move(details));
    }
  }
}

// The same content under a newer attempt is not sent again.
bool PipelineState::WeightsCurrent(const Worker& rollout) const {
  const v1::WeightVersion& held = rollout.weights->version();
  const v1::WeightVersion& offered = published_->version();
  if (held.step() == offered.step() && rollout.weights->weights_hash() == published_->hash()) return true;
  return std::pair(held.attempt(), held.step()) >= std::pair(offered.attempt(), offered.step());
}

void PipelineState::AdvanceDispatch(Monotonic now) {
  if (stopping_ || validation_ || ValidationDue()) return;
  if (durable_.attempt() < 0 && durable_.step() > 0) return;
  OpenGroups();
  ReassignGroups();
  for (int32_t replica = 0; replica < RolloutReplicas(); ++replica) Dispatch(replica, now);
}

// New groups, as far as the credits go. Each has a replica from the start, by its place in the order, so that with all
// of them alive the same rollout makes the same groups in every run.
void PipelineState::OpenGroups() {
  int64_t capacity = durable_.index().Capacity(durable_.step());
  uint64_t sequence = durable_.index().next_sequence();
  int64_t position = durable_.index().next_position();
  for (; capacity > 0; --capacity, ++sequence, ++position) {
    v1::PipelineRecord record;
    record.mutable_dispatched()->set_replica(PreferredReplica(position));
    record.mutable_dispatched()->add_sequences(sequence);
    Record(std::move(record));
  }
}

// Those of the job file, and those that were added since.
int32_t PipelineState::RolloutReplicas() const {
  auto replicas = static_cast<int32_t>(options_.rollout_replicas);
  auto behind = workers_.lower_bound({"rollout", std::numeric_limits<int32_t>::max()});
  if (behind == workers_.begin() || std::prev(behind)->first.role != "rollout") return replicas;
  return std::max(replicas, std::prev(behind)->first.replica + 1);
}

int32_t PipelineState::PreferredReplica(int64_t position) const {
  const int32_t replicas = RolloutReplicas();
  auto preferred = static_cast<int32_t>(position % replicas);
  for (int32_t i = 0; i < replicas; ++i) {
    auto it = workers_.find({"rollout", (preferred + i) % replicas});
    if (it != workers_.end() && it->second.up) return (preferred + i) % replicas;
  }
  return preferred;  // nobody lives: it waits for the successor
}

// Groups of a replica that is away go to one that lives.
void PipelineState::ReassignGroups() {
  for (const auto& [sequence, position] : durable_.index().OpenGroups()) {
    int32_t replica = durable_.ReplicaOf(sequence);
    auto it = workers_.find({"rollout", replica});
    if (replica >= 0 && it != workers_.end() && it->second.up) continue;
    int32_t other = PreferredReplica(position);
    if (other == replica) continue;
    v1::PipelineRecord record;
    record.mutable_dispatched()->set_replica(other);
    record.mutable_dispatched()->add_sequences(sequence);
    Record(std::move(record));
  }
}

// The open groups of one replica that its weights are new enough for and that it is not making already.
void PipelineState::Dispatch(int32_t replica, Monotonic now) {
  WorkerName name{"rollout", replica};
  Worker* rollout = Find(name);
  if (!Usable(name, now) || !rollout->weights || !UsableShards().contains(name.ToString())) return;
  // Weights of a course that was given up (OnSteppedBack): it waits for the trainer's.
  if (rollout->weights->version().step() > durable_.step()) return;
  std::set<uint64_t> running;
  bool alone_running = false;
  for (const auto& [id, call] : calls_) {
    if (call.kind != CallKind::kGenerate || call.worker != name) continue;
    running.insert(call.sequences.begin(), call.sequences.end());
    for (uint64_t sequence : call.sequences) alone_running |= deaths_[sequence] >= kDeathsBeforeAlone;
  }
  if (alone_running) return;
  v1::GenerateRequest request;
  Call details;
  int64_t required = 0;
  for (const auto& [sequence, position] : durable_.index().OpenGroups()) {
    if (durable_.ReplicaOf(sequence) != replica || running.contains(sequence)) continue;
    if (!durable_.index().MayGenerate(position, rollout->weights->version().step())) continue;  // PIPE-2
    bool alone = deaths_.contains(sequence) && deaths_[sequence] >= kDeathsBeforeAlone;
    if (alone && !(running.empty() && details.sequences.empty())) break;
    PromptOrder::Place place = durable_.order().At(sequence);
    v1::PromptTask* task = request.add_prompts();
    task->set_prompt_id(place.prompt_id);
    task->set_epoch(place.epoch);
    task->set_group_id(place.GroupId());
    task->set_n(static_cast<int32_t>(options_.samples));
    details.sequences.push_back(sequence);
    int64_t consumed_at = position / options_.train_batch_size;
    required = std::max(required, consumed_at - options_.max_staleness);
    if (alone || details.sequences.size() == kGroupsPerCallMax) break;
  }
  if (details.sequences.empty()) return;
  request.mutable_version()->set_step(required);
  Send(CallKind::kGenerate, name, std::move(request), now, std::move(details));
}

void PipelineState::OnGenerated(const Call& call, const v1::GenerateResponse& response, Monotonic) {
  std::map<std::string, uint64_t> sequence_of;
  for (uint64_t sequence : call.sequences) {
    if (durable_.index().IsOpen(sequence)) sequence_of[durable_.index().GroupIdOf(sequence)] = sequence;
  }
  std::map<uint64_t, v1::IndexedGroup> groups;
  for (const v1::RowMeta& row : response.rows()) {
    auto it = sequence_of.find(row.group_id());
    if (it == sequence_of.end()) continue;  // made twice: another replica was first
    v1::IndexedGroup& group = groups[it->second];
    group.set_sequence(it->second);
    *group.add_rows()->mutable_meta() = row;
  }
  v1::PipelineRecord record;
  for (const auto& [group_id, sequence] : sequence_of) {
    deaths_.erase(sequence);
    if (groups[sequence].rows_size() >= options_.IndexOptions().rows_per_group_min) {
      *record.mutable_generated()->add_groups() = std::move(groups[sequence]);
      continue;
    }
    v1::PipelineRecord dropped;  // the engine could not make it: numbers that are not finite
    dropped.mutable_group_dropped()->set_sequence(sequence);
    dropped.mutable_group_dropped()->set_reason("not generated");
    out_->actions.push_back(Note{"group_dropped", "group " + group_id + " could not be generated"});
    Record(std::move(dropped));
  }
  if (record.has_generated()) Record(std::move(record));
}

// A prompt that kills its rollout each time is found by sending it alone, and dropped.
void PipelineState::CountDeaths(const Call& call) {
  for (uint64_t sequence : call.sequences) {
    if (!durable_.index().IsOpen(sequence)) continue;
    if (++deaths_[sequence] < kDeathsBeforeAlone + kDeathsAloneMax) continue;
    out_->actions.push_back(Note{"group_quarantined", "group " + durable_.index().GroupIdOf(sequence) +
                                                          ": its rollout died " + std::to_string(deaths_[sequence]) +
                                                          " times while it was made; it is left out"});
    deaths_.erase(sequence);
    v1::PipelineRecord record;
    record.mutable_group_dropped()->set_sequence(sequence);
    record.mutable_group_dropped()->set_reason("quarantined");
    Record(std::move(record));
  }
}

}  // namespace troupe
