// SPDX-License-Identifier: Apache-2.0
#include "actors/rollout/engine_loop.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <future>

#include "actors/rollout/engine/tiny_model.h"

namespace troupe::rollout {
namespace {

std::unique_ptr<EngineLoop> MakeLoop() {
  EngineOptions options;
  options.kv_bytes = 64 * TinyPageBytes();
  options.page_tokens = 8;
  return std::make_unique<EngineLoop>(*RolloutEngine::Create(TinyConfig(), TinyWeights(1), {}, options));
}

std::vector<GenerationRequest> Requests(size_t count, int64_t tokens) {
  std::vector<GenerationRequest> requests(count);
  for (size_t i = 0; i < count; ++i) {
    requests[i].prompt_ids = {1, 2, 3};
    requests[i].sample_index = static_cast<int32_t>(i);
    requests[i].params.max_new_tokens = tokens;
    requests[i].params.ignore_eos = true;
  }
  return requests;
}

struct Outcome {
  std::vector<Generation> generations;
  std::promise<absl::Status> done;
};

std::shared_ptr<Outcome> Submit(EngineLoop& loop, std::vector<GenerationRequest> requests) {
  auto outcome = std::make_shared<Outcome>();
  outcome->generations.resize(requests.size());
  loop.Submit(
      std::move(requests),
      [outcome](size_t index, Generation generation) { outcome->generations[index] = std::move(generation); },
      [outcome](const absl::Status& status) { outcome->done.set_value(status); });
  return outcome;
}

}  // namespace

TEST_CASE("EngineLoop: several calls are open at a time and each gets its own generations", "[rollout]") {
  auto loop = MakeLoop();
  auto first = Submit(*loop, Requests(3, 9));
  auto second = Submit(*loop, Requests(2, 4));
  CHECK(second->done.get_future().get().ok());
  CHECK(first->done.get_future().get().ok());
  for (const Generation& generation : first->generations) CHECK(generation.tokens.size() == 9);
  for (const Generation& generation : second->generations) CHECK(generation.tokens.size() == 4);
  auto empty = Submit(*loop, {});
  CHECK(empty->done.get_future().get().ok());
}

TEST_CASE("EngineLoop: new weights are committed between steps, and tokens know it", "[rollout]") {
  auto loop = MakeLoop();
  std::promise<absl::Status> committed;
  loop->Commit(TinyWeights(2), {0, 1}, OnUpdate::kRecompute,
               [&](const absl::Status& status, absl::Duration) { committed.set_value(status); });
  CHECK(committed.get_future().get().ok());
  CHECK(loop->version() == ModelVersion{0, 1});
  auto after = Submit(*loop, Requests(1, 3));
  CHECK(after->done.get_future().get().ok());
  CHECK(after->generations[0].spans == std::vector<VersionSpan>{{.attempt = 0, .step = 1, .begin = 0, .end = 3}});
  std::promise<absl::Status> again;
  loop->Commit(TinyWeights(2), {0, 1}, OnUpdate::kRecompute,
               [&](const absl::Status& status, absl::Duration) { again.set_value(status); });
  CHECK(again.get_future().get().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("EngineLoop: a request that cannot be taken fails its call and no other", "[rollout]") {
  auto loop = MakeLoop();
  std::vector<GenerationRequest> wrong = Requests(2, 4);
  wrong[1].prompt_ids.clear();
  auto refused = Submit(*loop, std::move(wrong));
  auto fine = Submit(*loop, Requests(1, 4));
  CHECK(refused->done.get_future().get().code() == absl::StatusCode::kInvalidArgument);
  CHECK(fine->done.get_future().get().ok());
}

TEST_CASE("EngineLoop: at its end open calls are cancelled", "[rollout]") {
  auto loop = MakeLoop();
  auto open = Submit(*loop, Requests(2, 300));
  loop.reset();
  absl::Status status = open->done.get_future().get();
  CHECK((status.ok() || status.code() == absl::StatusCode::kCancelled));
}

}  // namespace troupe::rollout
