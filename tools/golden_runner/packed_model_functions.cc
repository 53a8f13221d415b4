// SPDX-License-Identifier: Apache-2.0
// Golden functions of the differentiable model: log-probabilities, entropies, gradients and AdamW steps of the Llama
// models, and SmolLM2's gradient.
#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "actors/model/files/model_config.h"
#include "actors/model/files/model_source.h"
#include "actors/model/packed/packed_logprobs.h"
#include "actors/model/weights.h"
#include "actors/trainer/core/adamw.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tools/golden_runner/golden_check.h"
#include "tools/golden_runner/inference_check.h"
#include "tools/golden_runner/smollm2_model.h"

namespace troupe::golden {
namespace {

constexpr int64_t kConfigBytesMax = 1 << 20;

struct Model {
  ModelConfig config;
  ModelWeights weights;
  std::unique_ptr<PackedModel> packed;
};

absl::StatusOr<Model> Open(const ModelConfig& config, const ModelWeights& weights) {
  Model model{.config = config, .weights = weights, .packed = nullptr};
  TROUPE_ASSIGN_OR_RETURN(model.packed, PackedModel::Create(model.config, model.weights));
  return model;
}

// The configuration of the case's folder with the weights that it names (another folder's for some).
absl::StatusOr<Model> OpenCase(const Case& one) {
  const std::string folder = one.folder + "/" + one.config.at("folder").get<std::string>();
  std::string weights = one.folder + "/" + one.config.at("weights").get<std::string>();
  weights.resize(weights.rfind('/'));
  TROUPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(folder + "/config.json", kConfigBytesMax));
  TROUPE_ASSIGN_OR_RETURN(const ModelConfig config, ParseModelConfig(text));
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<ModelSource> source, ModelSource::Open(weights));
  TROUPE_ASSIGN_OR_RETURN(const ModelWeights loaded, LoadWeights(*source));
  return Open(config, loaded);
}

std::vector<int32_t> TokensOf(const nlohmann::json& ids) {
  std::vector<int32_t> tokens;
  for (double id : NumbersOf(ids)) tokens.push_back(static_cast<int32_t>(id));
  return tokens;
}

// The sequence as a response to its first token.
PackedGroup AsGroup(const std::vector<int32_t>& tokens) {
  const absl::Span<const int32_t> all = tokens;
  return {.prompt = all.subspan(0, 1), .responses = {all.subspan(1)}};
}

std::vector<double> Doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

void CheckScores(Model& model, const nlohmann::json& ids, const nlohmann::json& want_logprobs,
                 const nlohmann::json& want_entropy, double atol, Check& check) {
  std::vector<int32_t> tokens = TokensOf(ids);
  std::vector<double> want = NumbersOf(want_entropy);
  // One more token, so that the last position is scored too, for its entropy; but not where angles depend on the
  // length.
  const bool stretched = model.config.rope_scaling.type == RopeType::kDynamic &&
                         static_cast<int64_t>(tokens.size()) >= model.config.max_position_embeddings;
  if (stretched) want.pop_back();
  if (!stretched) tokens.push_back(0);
  const PackedGroup group = AsGroup(tokens);
  const absl::StatusOr<PackedScores> scores = model.packed->Score({&group, 1}, {.entropy = true});
  if (!scores.ok()) return check.That(false, std::string(scores.status().message()));
  std::vector<double> logprobs = Doubles(scores->logprobs);
  if (!stretched) logprobs.pop_back();
  check.Near("token_logprobs", logprobs, NumbersOf(want_logprobs), {.atol = atol});
  check.Near("entropy", Doubles(scores->entropy), want, {.atol = atol});
}

// Mean next-token cross-entropy, and its gradient.
double LossAndGradients(Model& model, const std::vector<int32_t>& tokens, ModelWeights& gradients) {
  const PackedGroup group = AsGroup(tokens);
  std::shared_ptr<PackedTape> tape;
  const PackedScores scores = model.packed->Forward({&group, 1}, {}, &tape).value();
  const double count = static_cast<double>(scores.logprobs.size());
  double loss = 0;
  for (float logprob : scores.logprobs) loss -= logprob / count;
  const std::vector<float> d_logprobs(scores.logprobs.size(), static_cast<float>(-1 / count));
  model.packed->Backward(*tape, d_logprobs, {}, /*accumulate=*/false, gradients);
  return loss;
}

absl::Span<float> Flat(const ModelWeights& weights) {
  return absl::MakeSpan(reinterpret_cast<float*>(weights.bytes().data()), weights.bytes().size() / sizeof(float));
}

void CheckGradients(const nlohmann::json& want, const ModelWeights& gradients, double rtol, double atol, Check& check) {
  check.Near("grad_norm", GradNorm(Flat(gradients)), NumbersOf(want["grad_norm"])[0], {.rtol = rtol});
  for (const auto& [name, probe] : want["grads"].items()) {
    const std::span<float> gradient = gradients.Float32(name);
    if (gradient.empty()) return check.That(false, "no parameter " + name);
    check.Near("norm of " + name, GradNorm({gradient.data(), gradient.size()}), NumbersOf(probe["norm"])[0],
               {.rtol = rtol, .atol = 1e-7});
    std::vector<double> values;
    for (double at : NumbersOf(probe["at"])) values.push_back(gradient[static_cast<size_t>(at)]);
    check.Near("gradient of " + name, values, NumbersOf(probe["values"]), {.atol = atol});
  }
}

void CheckTraining(Model& model, const std::vector<int32_t>& tokens, const nlohmann::json& want, Check& check) {
  ModelWeights gradients = ModelWeights::Allocate(model.weights.layout());
  check.Near("loss", LossAndGradients(model, tokens, gradients), NumbersOf(want["loss"])[0], {.rtol = 1e-4});
  CheckGradients(want, gradients, 2e-5, 2e-5, check);
  const nlohmann::json& adamw = want["adamw"];
  std::vector<float> m(Flat(gradients).size()), v(Flat(gradients).size());
  const std::vector<double> losses = NumbersOf(adamw["losses_before_each_step_and_after_last"]);
  for (size_t step = 0; step < losses.size(); ++step) {
    check.Near(absl::StrCat("loss before step ", step), LossAndGradients(model, tokens, gradients), losses[step],
               {.rtol = 1e-4});
    AdamWUpdate<float>({.lr = adamw["lr"],
                        .beta1 = adamw["betas"][0],
                        .beta2 = adamw["betas"][1],
                        .eps = adamw["eps"],
                        .weight_decay = adamw["weight_decay"],
                        .step = static_cast<int64_t>(step) + 1,
                        .grad_scale = ClipFactor(GradNorm(Flat(gradients)), adamw["clip_grad_norm"].get<double>())},
                       Flat(gradients), Flat(model.weights), absl::MakeSpan(m), absl::MakeSpan(v));
  }
}

// The reference's dynamic angles remember the longest sequence that the model has seen: here the prompt with 15 of its
// 16 greedy tokens. The same angles, said as a base.
absl::Status RememberLength(int64_t length, Model& model) {
  const double factor = model.config.rope_scaling.factor;
  const double stretch = static_cast<double>(length) / static_cast<double>(model.config.max_position_embeddings);
  const double dim = static_cast<double>(model.config.head_dim);
  model.config.rope_theta *= std::pow(factor * stretch - (factor - 1), dim / (dim - 2));
  model.config.rope_scaling = {};
  model.config.max_position_embeddings = length;
  TROUPE_ASSIGN_OR_RETURN(model.packed, PackedModel::Create(model.config, model.weights));
  return absl::OkStatus();
}

void RunLlama(const Case& one, Check& check) {
  absl::StatusOr<Model> model = OpenCase(one);
  if (!model.ok()) return check.That(false, std::string(model.status().message()));
  const nlohmann::json& prompts = one.outputs["prompts"];
  for (const nlohmann::json& prompt : prompts) {
    CheckScores(*model, prompt["prompt"], prompt["token_logprobs"], prompt["entropy"], 1e-4, check);
  }
  // The engine refuses angles that change with the length.
  if (model->config.rope_scaling.type != RopeType::kDynamic)
    CheckInference(model->config, model->weights, prompts, 1e-4, check);
  if (!one.outputs.contains("training")) return;
  const std::vector<int32_t> tokens = TokensOf(prompts.back()["prompt"]);
  if (model->config.rope_scaling.type == RopeType::kDynamic) {
    const absl::Status status = RememberLength(static_cast<int64_t>(tokens.size()) + 15, *model);
    if (!status.ok()) return check.That(false, std::string(status.message()));
  }
  CheckTraining(*model, tokens, one.outputs["training"], check);
}

absl::StatusOr<Model>& SmolLm2() {
  static auto* model = new absl::StatusOr<Model>([]() -> absl::StatusOr<Model> {
    TROUPE_ASSIGN_OR_RETURN(const ModelSource* const source, SmolLm2Source());
    TROUPE_ASSIGN_OR_RETURN(const ModelWeights weights, SmolLm2Weights());
    return Open(source->config(), weights);
  }());
  return *model;
}

void RunScore(const Case& one, Check& check) {
  absl::StatusOr<Model>& model = SmolLm2();
  if (!model.ok()) return check.That(false, std::string(model.status().message()));
  CheckScores(*model, one.inputs["ids"], one.outputs["token_logprobs"], one.outputs["entropies"], 3e-4, check);
}

void RunGradient(const Case& one, Check& check) {
  absl::StatusOr<Model>& model = SmolLm2();
  if (!model.ok()) return check.That(false, std::string(model.status().message()));
  ModelWeights gradients = ModelWeights::Allocate(model->weights.layout());
  const double loss = LossAndGradients(*model, TokensOf(one.inputs["ids"]), gradients);
  check.Near("loss", loss, NumbersOf(one.outputs["loss"])[0], {.atol = 3e-4});
  CheckGradients(one.outputs, gradients, 2e-4, 1e-4, check);
}

[[maybe_unused]] const bool kRegistered =
    Register("model/llama", &RunLlama) && Register("score", &RunScore) && Register("gradient", &RunGradient);

}  // namespace
}  // namespace troupe::golden
