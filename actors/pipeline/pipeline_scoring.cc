// SPDX-License-Identifier: Apache-2.0
// Scorers: rewards and reference log-probabilities, under leases.
#include <algorithm>

#include "actors/pipeline/pipeline_sources.h"
#include "actors/pipeline/pipeline_state.h"

namespace troupe {

void PipelineState::AdvanceScorers(Monotonic now) {
  for (auto& [name, worker] : workers_) {
    if (!Usable(name, now)) continue;
    if (name.role == "reward" && OpenCalls(name, {CallKind::kScore, CallKind::kScoreValidation}) == 0) Score(name, now);
    if (name.role == "reference" && OpenCalls(name, {CallKind::kReference}) == 0) Refer(name, now);
  }
}

// One call at a time to each scorer: what has gathered meanwhile goes into the next, shared among the replicas.
std::vector<v1::RowMeta> PipelineState::LeaseFor(const WorkerName& scorer, std::string_view column) {
  // Their number may change while the job runs.
  const auto replicas = static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
    return worker.first.role == scorer.role && worker.second.up;
  }));
  size_t share = (durable_.index().Waiting(column) + replicas - 1) / replicas;
  if (share == 0) return {};
  RowConsumer consumer{scorer.ToString(), workers_.at(scorer).incarnation};
  return durable_.leases().Lease(consumer, column, std::min(share, kRowsPerCallMax), UsableShards());
}

void PipelineState::Score(const WorkerName& scorer, Monotonic now) {
  std::vector<v1::RowMeta> rows = LeaseFor(scorer, "reward");
  if (rows.empty()) return;
  v1::ScoreRequest request;
  AddSources(rows, request.mutable_sources());
  if (texts_step_ != durable_.step()) {
    request.set_texts(kSampleTextsPerStep);
    texts_step_ = durable_.step();
  }
  Send(CallKind::kScore, scorer, std::move(request), now);
}

void PipelineState::Refer(const WorkerName& reference, Monotonic now) {
  std::vector<v1::RowMeta> rows = LeaseFor(reference, "ref_logprobs");
  if (rows.empty()) return;
  v1::LogProbsRequest request;
  AddSources(rows, request.mutable_sources());
  Call details;
  for (const v1::RowMeta& row : rows) details.names.push_back(row.row_id());
  Send(CallKind::kReference, reference, std::move(request), now, std::move(details));
}

void PipelineState::OnScored(const Call& call, const v1::ScoreResponse& response) {
  RowConsumer consumer{call.worker.ToString(), call.incarnation};
  v1::PipelineRecord record;
  for (const v1::RowScore& score : response.scores()) {
    if (!durable_.index().Holds(consumer, "reward", score.row_id())) continue;  // its group was dropped meanwhile
    v1::ScoredRow* row = record.mutable_scored()->add_rows();
    row->set_row_id(score.row_id());
    row->set_reward(score.score());
    row->set_dropped(score.fault() == "program");
    row->set_answer_fault(score.fault() == "answer");
    if (!row->dropped()) *row->mutable_metrics() = score.metrics();
    if (!score.fault().empty()) out_->actions.push_back(RewardFaultNote(score));
    if (!score.response_text().empty()) out_->actions.push_back(WriteSample{durable_.step() + 1, score});
  }
  if (record.has_scored()) Record(std::move(record));
  durable_.leases().EndConsumer(consumer);  // rows that it did not answer for
  CheckDropped();
}

void PipelineState::CheckDropped() {
  double fraction = durable_.DroppedFraction();
  if (fraction <= options_.max_dropped_fraction) return;
  Fail("the reward program failed on " + std::to_string(static_cast<int>(fraction * 100)) + " % of the last " +
       std::to_string(options_.train_batch_size * options_.samples) +
       " rows (more than roles.reward.max_dropped_fraction); see events.jsonl and the reward role's log for what it "
       "said");
}

void PipelineState::OnReferred(const Call& call) {
  RowConsumer consumer{call.worker.ToString(), call.incarnation};
  v1::PipelineRecord record;
  for (const std::string& row_id : call.names) {
    if (durable_.index().Holds(consumer, "ref_logprobs", row_id)) record.mutable_reference_added()->add_row_ids(row_id);
  }
  if (record.has_reference_added()) Record(std::move(record));
}

}  // namespace troupe
