// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/rollout/engine/simple_loop.h"
#include "actors/rollout/engine/tiny_model.h"
#include "catch2/catch.hpp"

namespace troupe::rollout {
namespace {

constexpr ModelVersion kFirst{.attempt = 0, .step = 0};
// Rounding differs with the number of rows in a matrix product.
constexpr double kLogprobTolerance = 1e-5;

std::unique_ptr<RolloutEngine> MakeEngine(const EngineOptions& options = {}, uint32_t seed = 1) {
  return RolloutEngine::Create(TinyConfig(), TinyWeights(seed), kFirst, options).value();
}

GenerationRequest Request(uint64_t id, int32_t prompt_length, int64_t max_new_tokens) {
  GenerationRequest request{
      .request_id = id, .seed = 11, .prompt_id = id, .params = {.max_new_tokens = max_new_tokens}};
  for (int32_t i = 0; i < prompt_length; ++i) request.prompt_ids.push_back(3 + (i * 7 + prompt_length) % 29);
  return request;
}

std::map<uint64_t, Generation> RunAll(RolloutEngine& engine) {
  std::map<uint64_t, Generation> done;
  while (!engine.idle()) {
    std::vector<Generation> finished = engine.Step().value();
    for (Generation& generation : finished) done[generation.request_id] = std::move(generation);
  }
  return done;
}

void CheckSame(const Generation& got, const Generation& expected) {
  CHECK(got.tokens == expected.tokens);
  CHECK(got.finish_reason == expected.finish_reason);
  REQUIRE(got.rollout_logprobs.size() == expected.rollout_logprobs.size());
  for (size_t i = 0; i < got.rollout_logprobs.size(); ++i) {
    CHECK(std::abs(got.rollout_logprobs[i] - expected.rollout_logprobs[i]) < kLogprobTolerance);
    CHECK(std::abs(got.filtered_logprobs[i] - expected.filtered_logprobs[i]) < kLogprobTolerance);
  }
}

}  // namespace

TEST_CASE("RolloutEngine: tokens are those of the simplest loop, greedy and sampled", "[engine]") {
  auto engine = MakeEngine({.num_threads = 2});
  SimpleLoop loop(TinyConfig());
  loop.SetWeights(kFirst, TinyWeights(1));
  std::vector<GenerationRequest> requests;
  for (uint64_t id = 1; id <= 12; ++id) {
    GenerationRequest request = Request(id, static_cast<int32_t>(1 + id * 3), 10);
    request.params.temperature = id % 3 == 0 ? 0 : 0.5 + static_cast<double>(id) / 10;
    if (id % 4 == 1) request.params.top_k = 5;
    if (id % 4 == 2) request.params.top_p = 0.8;
    if (id % 4 == 3) request.params.min_p = 0.3;
    requests.push_back(request);
    REQUIRE(engine->Add(request).ok());
  }
  const std::map<uint64_t, Generation> done = RunAll(*engine);
  REQUIRE(done.size() == requests.size());
  for (const GenerationRequest& request : requests) {
    CAPTURE(request.request_id);
    CheckSame(done.at(request.request_id), loop.Generate(request, kFirst));
  }
}

TEST_CASE("RolloutEngine: a min_p of 1 leaves the likeliest token alone", "[engine]") {
  auto engine = MakeEngine();
  for (uint64_t id : {1, 2, 3}) {
    GenerationRequest request = Request(id, 6, 10);
    request.params.min_p = id == 2 ? 1 : 0;
    request.params.greedy = id == 1;
    REQUIRE(engine->Add(request).ok());
  }
  const std::map<uint64_t, Generation> done = RunAll(*engine);
  CHECK(done.at(2).tokens == done.at(1).tokens);
  CHECK(done.at(3).tokens != done.at(1).tokens);
}

TEST_CASE("RolloutEngine: the samples of a prompt compute it once and differ", "[engine]") {
  auto engine = MakeEngine();
  for (int32_t sample = 0; sample < 8; ++sample) {
    GenerationRequest request = Request(100 + sample, 20, 8);
    request.prompt_id = 5;
    request.sample_index = sample;
    request.params.ignore_eos = true;
    REQUIRE(engine->Add(request).ok());
  }
  const std::map<uint64_t, Generation> done = RunAll(*engine);
  CHECK(engine->stats().prefill_tokens == 20);
  CHECK(engine->stats().decode_tokens == 8 * 7);
  CHECK(engine->stats().cached_tokens == 7 * 20);
  CHECK(engine->stats().pages_used == 0);
  std::set<std::vector<int32_t>> different;
  for (const auto& [id, generation] : done) different.insert(generation.tokens);
  CHECK(different.size() >= 7);
}

TEST_CASE("RolloutEngine: a response does not depend on what else is in the batch", "[engine]") {
  auto alone = MakeEngine();
  REQUIRE(alone->Add(Request(7, 20, 12)).ok());
  const Generation expected = RunAll(*alone).at(7);
  auto crowded =
      MakeEngine({.max_batch_tokens = 24, .max_running = 5, .kv_bytes = TinyPageBytes() * 8, .page_tokens = 8});
  for (uint64_t id = 1; id <= 15; ++id) REQUIRE(crowded->Add(Request(id, 20, 12)).ok());
  CheckSame(RunAll(*crowded).at(7), expected);
  CHECK(crowded->stats().preemptions > 0);
}

TEST_CASE("RolloutEngine: any end id ends a response and is its last token", "[engine]") {
  auto probe = MakeEngine();
  GenerationRequest request = Request(1, 9, 12);
  request.params.ignore_eos = true;
  request.params.stop_token_ids = {3, 4, 5};
  REQUIRE(probe->Add(request).ok());
  const std::vector<int32_t> tokens = RunAll(*probe).at(1).tokens;
  REQUIRE(tokens.size() == 12);

  ModelConfig config = TinyConfig();  // TRL#7039: the second of several end ids counts too
  config.eos_token_ids = {static_cast<int64_t>(config.vocab_size - 1), tokens[4]};
  auto engine = RolloutEngine::Create(config, TinyWeights(1), kFirst, {}).value();
  REQUIRE(engine->Add(Request(1, 9, 12)).ok());
  const Generation stopped = RunAll(*engine).at(1);
  CHECK(stopped.finish_reason == FinishReason::kStop);
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[4]);
  CHECK(stopped.tokens == std::vector<int32_t>(tokens.begin(), first + 1));

  request = Request(2, 9, 12);
  request.params.stop_token_ids = {tokens[2]};
  request.prompt_id = 1;
  auto other = MakeEngine();
  REQUIRE(other->Add(request).ok());
  CHECK(RunAll(*other).at(2).tokens.back() == tokens[2]);
}

TEST_CASE("RolloutEngine: an interrupted response goes on with what is left of its budget", "[engine]") {
  GenerationRequest request = Request(1, 9, 12);  // slime#2261
  request.params.ignore_eos = true;
  auto whole = MakeEngine();
  REQUIRE(whole->Add(request).ok());
  const Generation expected = RunAll(*whole).at(1);

  auto engine = MakeEngine();
  REQUIRE(engine->Add(request).ok());
  for (int step = 0; step < 5; ++step) REQUIRE(engine->Step().value().empty());
  REQUIRE(engine->Abort(1).ok());
  const Generation part = engine->Step().value().at(0);
  CHECK(part.finish_reason == FinishReason::kAbort);
  CHECK(part.tokens.size() == 5);
  request.generated = part.tokens;
  REQUIRE(engine->Add(request).ok());
  const Generation rest = RunAll(*engine).at(1);
  CHECK(rest.finish_reason == FinishReason::kLength);
  std::vector<int32_t> joined = part.tokens;
  joined.insert(joined.end(), rest.tokens.begin(), rest.tokens.end());
  CHECK(joined == expected.tokens);
}

TEST_CASE("RolloutEngine: each token knows the version that made it", "[engine]") {
  for (OnUpdate on_update : {OnUpdate::kRecompute, OnUpdate::kKeepKv, OnUpdate::kFinish}) {
    auto engine = MakeEngine();
    GenerationRequest request = Request(1, 9, 6);
    request.params.ignore_eos = true;
    REQUIRE(engine->Add(request).ok());
    for (int step = 0; step < 2; ++step) REQUIRE(engine->Step().value().empty());
    const ModelVersion second{.attempt = 0, .step = 1};
    REQUIRE(engine->UpdateWeights(TinyWeights(2), second, on_update).ok());
    CHECK(engine->update_pending() == (on_update == OnUpdate::kFinish));
    request.request_id = 2;
    REQUIRE(engine->Add(request).ok());
    const std::map<uint64_t, Generation> done = RunAll(*engine);
    CHECK(engine->version() == second);
    const bool finish = on_update == OnUpdate::kFinish;
    const std::vector<VersionSpan> expected =
        finish ? std::vector<VersionSpan>{{0, 0, 0, 6}}
               : std::vector<VersionSpan>{{0, 0, 0, 2}, {0, 1, 2, 6, on_update == OnUpdate::kKeepKv}};
    CHECK(done.at(1).spans == expected);
    CHECK(done.at(2).spans == std::vector<VersionSpan>{{0, 1, 0, 6}});

    SimpleLoop loop(TinyConfig());  // the new request must not have met pages of the old version (lmdeploy#4917)
    loop.SetWeights(second, TinyWeights(2));
    CheckSame(done.at(2), loop.Generate(request, second));
  }
}

TEST_CASE("RolloutEngine: an older version or another layout is refused", "[engine]") {
  auto engine = MakeEngine();
  const ModelVersion resumed{.attempt = 1, .step = 0};
  CHECK(engine->UpdateWeights(TinyWeights(2), kFirst, OnUpdate::kRecompute).code() ==
        absl::StatusCode::kFailedPrecondition);
  ModelConfig other = TinyConfig();
  other.num_hidden_layers = 1;
  const ModelWeights smaller = ModelWeights::Allocate(LayoutOf(other, ElementType::kF32).value());
  CHECK(engine->UpdateWeights(smaller, resumed, OnUpdate::kRecompute).code() == absl::StatusCode::kInvalidArgument);
  CHECK(engine->version() == kFirst);
  CHECK(engine->UpdateWeights(TinyWeights(2), resumed, OnUpdate::kRecompute).ok());
  CHECK(engine->UpdateWeights(TinyWeights(3), {.attempt = 0, .step = 9}, OnUpdate::kRecompute).code() ==
        absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("RolloutEngine: bad requests are refused one by one", "[engine]") {
  auto engine = MakeEngine({.max_waiting = 2});
  const auto refused = [&](auto change) {
    GenerationRequest request = Request(1, 5, 4);
    change(request);
    const absl::Status status = engine->Add(request);
    INFO(status.ToString());
    return status.code() == absl::StatusCode::kInvalidArgument &&
           status.message().find("request 1") != status.message().npos;
  };
  CHECK(refused([](GenerationRequest& r) { r.prompt_ids.clear(); }));
  CHECK(refused([](GenerationRequest& r) { r.prompt_ids.assign(200, 3); }));
  CHECK(refused([](GenerationRequest& r) { r.prompt_ids[2] = 32; }));
  CHECK(refused([](GenerationRequest& r) { r.prompt_ids[2] = -1; }));
  CHECK(refused([](GenerationRequest& r) { r.params.max_new_tokens = 0; }));
  CHECK(refused([](GenerationRequest& r) { r.params.temperature = std::nan(""); }));
  CHECK(refused([](GenerationRequest& r) { r.params.temperature = -1; }));
  CHECK(refused([](GenerationRequest& r) { r.params.temperature = 1e-300; }));
  CHECK(refused([](GenerationRequest& r) { r.params.top_p = 0; }));
  CHECK(refused([](GenerationRequest& r) { r.params.top_p = 1.5; }));
  CHECK(refused([](GenerationRequest& r) { r.params.min_p = -0.1; }));
  CHECK(refused([](GenerationRequest& r) { r.params.min_p = std::nan(""); }));
  CHECK(refused([](GenerationRequest& r) { r.params.top_k = -1; }));
  CHECK(refused([](GenerationRequest& r) { r.params.stop_token_ids = {32}; }));
  CHECK(refused([](GenerationRequest& r) { r.generated = {1, 2, 3, 4}; }));
  REQUIRE(engine->Add(Request(1, 5, 4)).ok());
  CHECK(engine->Add(Request(1, 5, 4)).code() == absl::StatusCode::kAlreadyExists);
  REQUIRE(engine->Add(Request(2, 5, 4)).ok());
  CHECK(engine->Add(Request(3, 5, 4)).code() == absl::StatusCode::kResourceExhausted);
  CHECK(engine->Abort(9).code() == absl::StatusCode::kNotFound);
  CHECK(RunAll(*engine).size() == 2);
}

TEST_CASE("RolloutEngine: a response ends with the model's context", "[engine]") {
  auto engine = MakeEngine();
  GenerationRequest request = Request(1, 100, 1000);
  request.params.ignore_eos = true;
  REQUIRE(engine->Add(request).ok());
  const Generation generation = RunAll(*engine).at(1);
  CHECK(generation.finish_reason == FinishReason::kLength);
  CHECK(static_cast<int64_t>(generation.tokens.size()) == TinyConfig().max_position_embeddings - 100);
}

TEST_CASE("RolloutEngine: logits that are not finite end their request with an error", "[engine]") {
  ModelWeights broken = TinyWeights(1);  // the embedding of token 4 is NaN; it is not the LM head's
  const ModelConfig config = TinyConfig();
  std::span<float> embedding = broken.Float32("model.embed_tokens.weight");
  std::fill_n(embedding.data() + 4 * config.hidden_size, config.hidden_size, std::nanf(""));
  auto engine = RolloutEngine::Create(config, broken, kFirst, {}).value();
  GenerationRequest good = Request(1, 5, 4), bad = Request(2, 5, 4);
  good.prompt_ids = {5, 6, 7};
  bad.prompt_ids = {5, 4, 7};
  good.params.stop_token_ids = {4};
  REQUIRE(engine->Add(good).ok());
  REQUIRE(engine->Add(bad).ok());
  const std::map<uint64_t, Generation> done = RunAll(*engine);
  CHECK(done.at(1).error.ok());
  CHECK(done.at(1).tokens.size() >= 1);
  CHECK(done.at(2).finish_reason == FinishReason::kError);
  CHECK(done.at(2).error.message().find("not finite") != absl::string_view::npos);
}

TEST_CASE("RolloutEngine: arrivals, aborts, preemptions and updates in random order change no token", "[engine]") {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&random](int n) { return static_cast<int>(random() % n); };
    auto engine = MakeEngine({.max_batch_tokens = 8 + draw(40),
                              .max_running = 2 + draw(8),
                              .kv_bytes = TinyPageBytes() * (7 + draw(10)),
                              .page_tokens = 8},
                             100);
    SimpleLoop loop(TinyConfig());
    ModelVersion version = kFirst;
    loop.SetWeights(version, TinyWeights(100));
    std::map<uint64_t, GenerationRequest> requests;
    std::map<uint64_t, Generation> done;
    uint64_t next = 1;
    for (int step = 0; step < 120 || !engine->idle(); ++step) {
      if (step < 120 && draw(2) == 0) {
        GenerationRequest request = Request(next, 1 + draw(30), 1 + draw(20));
        request.prompt_id = draw(4);
        request.sample_index = draw(3);
        request.params.temperature = draw(4) == 0 ? 0 : 1;
        request.params.top_k = draw(3) == 0 ? 6 : 0;
        REQUIRE(engine->Add(request).ok());
        requests[next++] = request;
      }
      if (step < 120 && draw(20) == 0) {
        ++version.step;
        loop.SetWeights(version, TinyWeights(100 + static_cast<uint32_t>(version.step)));
        const OnUpdate on_update = draw(2) == 0 ? OnUpdate::kRecompute : OnUpdate::kFinish;
        REQUIRE(engine->UpdateWeights(TinyWeights(100 + static_cast<uint32_t>(version.step)), version, on_update).ok());
      }
      if (draw(12) == 0 && next > 1) (void)engine->Abort(1 + draw(static_cast<int>(next) - 1));
      std::vector<Generation> finished = engine->Step().value();
      for (Generation& generation : finished) done[generation.request_id] = std::move(generation);
    }
    REQUIRE(done.size() == requests.size());
    CHECK(engine->stats().pages_used == 0);
    for (const auto& [id, request] : requests) {
      CAPTURE(id);
      CheckSame(done.at(id), loop.Replay(request, done.at(id)));
    }
  }
}

}  // namespace troupe::rollout
