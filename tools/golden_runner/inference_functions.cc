// SPDX-License-Identifier: Apache-2.0
// Golden functions of the engine's forward pass: logits, hidden states and greedy tokens.
#include <cmath>
#include <memory>
#include <numeric>
#include <span>

#include "actors/model/llama/llama_inference.h"
#include "actors/tokenizer/tokenizer.h"
#include "kernels/log_softmax/log_softmax.h"
#include "runtime/base/status.h"
#include "tools/golden_runner/golden_check.h"
#include "tools/golden_runner/inference_check.h"
#include "tools/golden_runner/smollm2_model.h"

namespace troupe::golden {
namespace {

constexpr int64_t kPageTokens = 16;
constexpr int64_t kCacheBytes = 64 << 20;  // some hundred tokens of SmolLM2
constexpr int kThreads = 2;

// One sequence at a time, its pages simply in order.
class Decoder {
 public:
  static absl::StatusOr<Decoder> Create(const ModelConfig& config, const ModelWeights& weights) {
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<LlamaInference> model, LlamaInference::Create(config, weights, kThreads));
    TROUPE_ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(config, kPageTokens, kCacheBytes));
    return Decoder(config.vocab_size, std::move(model), std::move(cache));
  }

  // Logits of every token, [tokens, vocabulary]; the first stands at `position`.
  std::span<const float> Forward(const std::vector<int32_t>& tokens, int64_t position) {
    ForwardBatch batch{.tokens = tokens};
    for (size_t i = 0; i < tokens.size(); ++i) {
      batch.positions.push_back(position + static_cast<int64_t>(i));
      batch.logit_rows.push_back(static_cast<int64_t>(i));
    }
    batch.sequences = {{pages_.data(), 0, static_cast<int64_t>(tokens.size()), position}};
    return model_->Forward(batch, cache_);
  }

  struct Greedy {
    std::vector<double> tokens;
    std::vector<double> logprobs;
  };
  Greedy Continue(std::vector<int32_t> tokens, size_t count) {
    Greedy made;
    for (int64_t position = 0; made.tokens.size() < count;) {
      const std::span<const float> logits = Forward(tokens, position).last(static_cast<size_t>(vocabulary_));
      position += static_cast<int64_t>(tokens.size());
      const kernels::SoftmaxStats stats = kernels::SoftmaxStatsOf(logits.data(), vocabulary_, 1.0f);
      made.tokens.push_back(stats.argmax);
      made.logprobs.push_back(kernels::LogProbability(logits.data(), 1.0f, stats, stats.argmax));
      tokens = {stats.argmax};
    }
    return made;
  }

  size_t vocabulary() const { return static_cast<size_t>(vocabulary_); }
  std::span<const float> last_hidden() const { return model_->last_hidden(); }

 private:
  Decoder(int64_t vocabulary, std::unique_ptr<LlamaInference> model, KvCache cache)
      : vocabulary_(vocabulary), model_(std::move(model)), cache_(std::move(cache)), pages_(cache_.num_pages()) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  int64_t vocabulary_;
  std::unique_ptr<LlamaInference> model_;
  KvCache cache_;
  std::vector<int32_t> pages_;
};

std::vector<double> Doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

// Mean, deviation (of all, not of a sample), log of the sum of exponentials and entropy of one row of logits.
void CheckStatistics(const std::vector<double>& logits, const nlohmann::json& want, double atol, Check& check) {
  const double count = static_cast<double>(logits.size());
  const double mean = std::accumulate(logits.begin(), logits.end(), 0.0) / count;
  double squares = 0, sum_exp = 0, weighted = 0;
  for (double z : logits) {
    squares += (z - mean) * (z - mean);
    sum_exp += std::exp(z);
    weighted += z * std::exp(z);
  }
  check.Near("logits_mean", mean, NumbersOf(want.at("logits_mean"))[0], {.atol = atol});
  check.Near("logits_std", std::sqrt(squares / (count - 1)), NumbersOf(want.at("logits_std"))[0], {.atol = atol});
  check.Near("logsumexp", std::log(sum_exp), NumbersOf(want.at("logsumexp"))[0], {.atol = atol});
  check.Near("entropy", std::log(sum_exp) - weighted / sum_exp, NumbersOf(want.at("entropy"))[0], {.atol = atol});
}

// The tokens up to the first step whose margin is within the error of two logits.
void CheckGreedy(const std::vector<double>& tokens, const nlohmann::json& want, const std::vector<double>& margins,
                 double atol, Check& check) {
  const std::vector<double> expected = NumbersOf(want);
  for (size_t i = 0; i < tokens.size() && margins.at(i) > 2 * atol; ++i)
    check.Near("greedy token", tokens[i], expected.at(i), {});
}

absl::StatusOr<Decoder>& SmolLm2Decoder() {
  static auto* decoder = new absl::StatusOr<Decoder>([]() -> absl::StatusOr<Decoder> {
    TROUPE_ASSIGN_OR_RETURN(const ModelSource* const source, SmolLm2Source());
    TROUPE_ASSIGN_OR_RETURN(const ModelWeights weights, SmolLm2Weights());
    return Decoder::Create(source->config(), weights);
  }());
  return *decoder;
}

void RunGenerate(const Case& one, Check& check) {
  constexpr double kAtol = 3e-4;
  absl::StatusOr<Decoder>& decoder = SmolLm2Decoder();
  if (!decoder.ok()) return check.That(false, MessageOf(decoder.status()));
  const auto ids = one.inputs.at("ids").get<std::vector<int32_t>>();
  const nlohmann::json& want = one.outputs;
  const std::vector<double> logits = Doubles(decoder->Forward(ids, 0).last(decoder->vocabulary()));
  const std::span<const float> hidden = decoder->last_hidden();
  std::vector<double> top5;
  for (double id : NumbersOf(want.at("top5_ids"))) top5.push_back(logits.at(static_cast<size_t>(id)));
  check.Near("top5_logits", top5, NumbersOf(want.at("top5_logits")), {.atol = kAtol});
  CheckStatistics(logits, want, kAtol, check);
  const std::vector<double> first8 = NumbersOf(want.at("hidden_last_first8").at("30"));
  check.Near("hidden_last", Doubles(hidden.subspan(hidden.size() * (ids.size() - 1) / ids.size(), first8.size())),
             first8, {.rtol = 1e-4, .atol = kAtol});
  const std::vector<double> margins = NumbersOf(want.at("greedy_margins"));
  const Decoder::Greedy made = decoder->Continue(ids, margins.size());
  CheckGreedy(made.tokens, want.at("greedy_ids"), margins, kAtol, check);
  if (made.tokens == NumbersOf(want.at("greedy_ids")))
    check.Near("greedy_logprobs", made.logprobs, NumbersOf(want.at("greedy_logprobs")), {.atol = kAtol});
}

[[maybe_unused]] const bool kRegistered = Register("generate", &RunGenerate);

}  // namespace

void CheckInference(const ModelConfig& config, const ModelWeights& weights, const nlohmann::json& prompts, double atol,
                    Check& check) {
  absl::StatusOr<Decoder> decoder = Decoder::Create(config, weights);
  if (!decoder.ok()) return check.That(false, MessageOf(decoder.status()));
  for (const nlohmann::json& prompt : prompts) {
    const auto ids = prompt.at("prompt").get<std::vector<int32_t>>();
    check.Near("logits_last3", Doubles(decoder->Forward(ids, 0).last(3 * decoder->vocabulary())),
               NumbersOf(prompt.at("logits_last3")), {.atol = atol});
    const std::vector<double> hidden = NumbersOf(prompt.at("hidden_last").back());
    check.Near("hidden_last", Doubles(decoder->last_hidden().last(hidden.size())), hidden, {.atol = atol});
    const std::vector<double> margins(prompt.at("greedy").size(), NumbersOf(prompt.at("greedy_min_margin"))[0]);
    CheckGreedy(decoder->Continue(ids, margins.size()).tokens, prompt.at("greedy"), margins, atol, check);
  }
}

}  // namespace troupe::golden
