// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/controller_log.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "actors/trainer/core/checkpoint.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

PipelineDurable Fresh() {
  PipelineOptions options;
  options.train_batch_size = 1;
  options.samples = 2;
  options.total_steps = 9;
  return PipelineDurable(options, PromptOrder({0, 1, 2}, false, 1));
}

v1::PipelineRecord Dispatched(uint64_t sequence) {
  v1::PipelineRecord record;
  record.mutable_dispatched()->add_sequences(sequence);
  record.mutable_dispatched()->set_replica(3);
  return record;
}

// A checkpoint of the step with one open group, of replica 3, and one of which rows lie in rollout/3.
void Save(const std::string& folder, const std::string& job_id, int64_t step) {
  PipelineDurable durable = Fresh();
  REQUIRE(durable.Apply(Dispatched(0)).ok());
  REQUIRE(durable.Apply(Dispatched(1)).ok());
  v1::PipelineRecord generated;
  v1::IndexedGroup* group = generated.mutable_generated()->add_groups();
  group->set_sequence(1);
  for (int sample : {0, 1}) {
    v1::RowMeta* row = group->add_rows()->mutable_meta();
    row->set_row_id("row-" + std::to_string(sample));
    row->set_group_id(durable.order().At(1).GroupId());
    row->set_sample_index(sample);
    row->set_shard("rollout/3");
  }
  REQUIRE(durable.Apply(generated).ok());
  v1::PipelineSnapshot saved = durable.Snapshot();
  saved.set_job_id(job_id);
  saved.set_step(step);
  saved.set_attempt(0);
  saved.mutable_index()->set_leased_steps(step);
  std::string part = *BeginCheckpoint(folder + "/checkpoints", step);
  REQUIRE(WriteFileAtomic(part + "/" + kControllerPart, saved.SerializeAsString()).ok());
  REQUIRE(CommitCheckpoint(folder + "/checkpoints", step).ok());
}

}  // namespace

TEST_CASE("ControllerLog: a restarted controller of the same job has the state it had", "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("controller-log-test");
  ControllerLogOptions options{.output_dir = folder, .job_id = "job-1"};
  std::vector<std::string> told;
  std::string before;
  {
    PipelineDurable durable = Fresh();
    auto log = *ControllerLog::Open(options, durable, &told);
    for (uint64_t sequence : {0, 1}) {
      REQUIRE(durable.Apply(Dispatched(sequence)).ok());
      REQUIRE(log->Append({Dispatched(sequence)}).ok());
    }
    before = durable.Snapshot().DebugString();
  }
  PipelineDurable durable = Fresh();
  auto log = *ControllerLog::Open(options, durable, &told);
  CHECK(durable.Snapshot().DebugString() == before);
  REQUIRE(log->Compact(durable.Snapshot()).ok());
  PipelineDurable compacted = Fresh();
  REQUIRE(ControllerLog::Open(options, compacted, &told).ok());
  CHECK(compacted.Snapshot().DebugString() == before);
  CHECK(told.empty());
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("ControllerLog: it is long beyond twice its snapshot, not by a large snapshot alone", "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("controller-log-test");
  ControllerLogOptions options{.output_dir = folder, .job_id = "job-1"};
  std::vector<std::string> told;
  PipelineDurable durable = Fresh();
  auto log = *ControllerLog::Open(options, durable, &told);
  CHECK_FALSE(log->IsLong());
  v1::PipelineSnapshot large = durable.Snapshot();
  (*large.mutable_metrics())[std::string(kControllerLogBytesMax, 'm')] = 1;
  REQUIRE(log->Compact(large).ok());
  CHECK_FALSE(log->IsLong());
  v1::PipelineRecord record;
  (*record.mutable_validation_done()->mutable_metrics())[std::string(kControllerLogBytesMax + 1024, 'v')] = 1;
  REQUIRE(log->Append({record}).ok());
  CHECK(log->IsLong());
  REQUIRE(log->Compact(large).ok());
  CHECK_FALSE(log->IsLong());
  log = *ControllerLog::Open(options, durable, &told);
  CHECK_FALSE(log->IsLong());
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("ControllerLog: it goes on in its long file when there is no room to begin anew, and tries again later",
          "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("controller-log-test");
  ControllerLogOptions options{.output_dir = folder, .job_id = "job-1"};
  std::vector<std::string> told;
  PipelineDurable durable = Fresh();
  auto log = *ControllerLog::Open(options, durable, &told);
  v1::PipelineRecord record;
  (*record.mutable_validation_done()->mutable_metrics())[std::string(kControllerLogBytesMax + 1024, 'v')] = 1;
  REQUIRE(log->Append({record}).ok());
  REQUIRE(log->IsLong());
  v1::PipelineSnapshot large = durable.Snapshot();
  (*large.mutable_metrics())[std::string(1 << 20, 'm')] = 1;
  rlimit all{}, little{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &all) == 0);
  little = {.rlim_cur = 64 << 10, .rlim_max = all.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
  absl::Status compacted = log->Compact(large);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &all) == 0);
  CHECK_FALSE(compacted.ok());
  CHECK_FALSE(FileExists(folder + "/controller.log.tmp"));
  CHECK_FALSE(log->IsLong());
  REQUIRE(log->Append({Dispatched(0)}).ok());
  PipelineDurable recovered = Fresh();
  REQUIRE(ControllerLog::Open(options, recovered, &told).ok());
  CHECK(recovered.ReplicaOf(0) == 3);
  record.mutable_validation_done()->clear_metrics();
  (*record.mutable_validation_done()->mutable_metrics())[std::string(kCompactRetryBytes, 'v')] = 1;
  REQUIRE(log->Append({record}).ok());
  CHECK(log->IsLong());
  REQUIRE(log->Compact(large).ok());
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("ControllerLog: a job that begins at an earlier checkpoint gives up the later ones in its folder",
          "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("controller-log-test");
  for (int64_t step : {2, 4, 6}) Save(folder, "job-1", step);
  auto begin = [&](const std::string& job, const std::string& resume) {
    std::vector<std::string> told;
    PipelineDurable durable = Fresh();
    ControllerLogOptions options{.output_dir = folder, .job_id = job, .resume = resume};
    REQUIRE(ControllerLog::Open(options, durable, &told).ok());
    return durable.step();
  };
  CHECK(begin("job-2", folder + "/checkpoints/step_4") == 4);
  CHECK(begin("job-3", "auto") == 4);
  CHECK(begin("job-4", folder + "/checkpoints/step_6.given_up") == 6);
  REQUIRE(WriteFileAtomic(folder + "/checkpoints/step_4/" + kControllerPart, "bits").ok());
  CHECK(begin("job-5", "auto") == 2);
  CHECK(begin("job-6", "never") == 0);
  CHECK(begin("job-7", "auto") == 0);
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("ControllerLog: a new job begins from the newest checkpoint, with its shards spread anew", "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("controller-log-test");
  Save(folder, "job-1", 4);
  for (const char* job : {"job-1", "job-2"}) REQUIRE(MakeDirs(folder + "/rows/" + job + "/rollout-0").ok());
  std::vector<std::string> told;
  PipelineDurable durable = Fresh();
  REQUIRE(ControllerLog::Open({.output_dir = folder, .job_id = "job-2", .rollout_replicas = 2}, durable, &told).ok());
  CHECK_FALSE(FileExists(folder + "/rows/job-1"));  // what is needed of them is in the checkpoint
  CHECK(FileExists(folder + "/rows/job-2/rollout-0"));
  CHECK(durable.step() == 4);
  CHECK(durable.checkpoint_step() == 4);
  CHECK(durable.job_id() == "job-2");
  CHECK(durable.resumed_from() == folder + "/checkpoints/step_4");
  CHECK(durable.ReplicaOf(0) == 1);
  for (const v1::RowMeta& row : durable.index().QueuedRows()) CHECK(row.shard() == "rollout/1");
  CHECK(durable.index().QueuedRows().size() == 2);
  CHECK(told.size() == 1);

  PipelineDurable never = Fresh();
  REQUIRE(ControllerLog::Open({.output_dir = folder, .job_id = "job-3", .resume = "never"}, never, &told).ok());
  CHECK(never.step() == 0);
  PipelineDurable missing = Fresh();
  CHECK_FALSE(
      ControllerLog::Open({.output_dir = folder, .job_id = "job-4", .resume = "/nonexistent"}, missing, &told).ok());
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("ControllerLog: a damaged checkpoint is passed over and named; what comes before it is gone on from",
          "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("controller-log-test");
  for (int64_t step : {2, 4, 6}) Save(folder, step == 2 ? "job-1" : "job-2", step);
  ControllerLogOptions options{.output_dir = folder, .job_id = "job-2", .rollout_replicas = 2};
  auto step_back = [&](const std::string& damaged, const std::string& resume) {
    if (!damaged.empty()) REQUIRE(WriteFileAtomic(folder + damaged + kControllerPart, "bits").ok());
    options.resume = resume;
    std::vector<std::string> told;
    v1::PipelineSnapshot snapshot = SnapshotToGoBackTo(options, Fresh(), &told).value();
    CHECK(snapshot.job_id() == "job-2");
    for (const std::string& text : told) CHECK(text.find("/checkpoints/step_") != std::string::npos);
    return std::pair(snapshot.step(), told.size());
  };
  CHECK(step_back("", "auto") == std::pair(int64_t{6}, size_t{0}));
  CHECK(step_back("/checkpoints/step_6/", "auto") == std::pair(int64_t{4}, size_t{1}));
  CHECK(step_back("/checkpoints/step_4/", "never") == std::pair(int64_t{0}, size_t{2}));  // step 2 is another run's
  CHECK(step_back("", "auto") == std::pair(int64_t{2}, size_t{2}));
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("ControllerLog: a new job's attempts are later than any that the folder's metrics tell of", "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("controller-log-test");
  Save(folder, "job-1", 4);
  std::vector<std::string> told;
  PipelineDurable durable = Fresh();
  REQUIRE(ControllerLog::Open({.output_dir = folder, .job_id = "job-2", .last_attempt = 3}, durable, &told).ok());
  CHECK(durable.step() == 4);
  CHECK(durable.attempt() == 3);  // The trainer's will be 4.
  RemoveTree(folder).IgnoreError();
}

TEST_CASE("ControllerLog: a run none of whose checkpoints is whole is not begun again in its folder", "[pipeline]") {
  std::string folder = *MakeTemporaryDirectory("controller-log-test");
  for (int64_t step : {2, 4}) {
    Save(folder, "job-1", step);
    std::string part = folder + "/checkpoints/step_" + std::to_string(step) + "/" + kControllerPart;
    REQUIRE(WriteFileAtomic(part, "bits").ok());
  }
  std::vector<std::string> told;
  PipelineDurable durable = Fresh();
  absl::Status opened = ControllerLog::Open({.output_dir = folder, .job_id = "job-2"}, durable, &told).status();
  CHECK(absl::IsDataLoss(opened));
  CHECK(opened.message().find("step_2") != absl::string_view::npos);
  CHECK_FALSE(FileExists(folder + "/controller.log"));
  REQUIRE(RemoveTree(folder + "/checkpoints").ok());
  REQUIRE(ControllerLog::Open({.output_dir = folder, .job_id = "job-2", .last_attempt = 0}, durable, &told).ok());
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("begins again at step 0") != std::string::npos);
  RemoveTree(folder).IgnoreError();
}

}  // namespace troupe
