// SPDX-License-Identifier: Apache-2.0
#include "actors/worker/model_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/model/files/hugging_face_folder.h"
#include "actors/model/files/model_source.h"
#include "actors/model/files/random_model.h"
#include "actors/model/weights.h"
#include "actors/rollout/engine/engine.h"
#include "actors/tokenizer/tokenizer.h"
#include "actors/trainer/core/checkpoint.h"
#include "actors/worker/model_options.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

// The model that was named: of a run's folder its newest whole checkpoint, which is told on stderr.
absl::StatusOr<std::string> ModelPath(const std::string& given) {
  std::string path = std::filesystem::path(ExpandHome(given)).lexically_normal().string();
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!FileExists(path + "/checkpoints")) return path;
  TROUPE_ASSIGN_OR_RETURN(CheckpointInfo newest, LatestCheckpoint(path + "/checkpoints", nullptr));
  std::fprintf(stderr, "%s is a run's folder: taking %s\n", path.c_str(), newest.dir.c_str());
  return newest.dir;
}

absl::Status Generate(const GenerateOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(std::string path, ModelPath(options.model));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<ModelSource> source, ModelSource::Open(path));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(path));
  std::string text = options.prompt;
  if (!options.raw) {
    if (tokenizer->chat_template().empty()) {
      return absl::InvalidArgumentError(path + " has no chat template; --raw gives it the prompt as it is");
    }
    nlohmann::ordered_json messages = {{{"role", "user"}, {"content", options.prompt}}};
    TROUPE_ASSIGN_OR_RETURN(text, tokenizer->ApplyChatTemplate(messages));
  }
  rollout::GenerationRequest request;
  request.request_id = 1;
  request.seed = options.seed;
  TROUPE_ASSIGN_OR_RETURN(request.prompt_ids, tokenizer->Encode(text));
  request.params.temperature = options.temperature > 0 ? options.temperature : 1;
  request.params.greedy = options.temperature <= 0;
  request.params.top_k = options.top_k;
  request.params.top_p = options.top_p;
  request.params.max_new_tokens = options.max_tokens;
  for (int64_t id : source->config().eos_token_ids) request.params.stop_token_ids.push_back(static_cast<int32_t>(id));
  TROUPE_ASSIGN_OR_RETURN(ModelWeights weights, LoadWeights(*source));
  rollout::EngineOptions engine_options;
  engine_options.num_threads = options.threads;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<rollout::RolloutEngine> engine,
                          rollout::RolloutEngine::Create(source->config(), std::move(weights), {}, engine_options));
  TROUPE_RETURN_IF_ERROR(engine->Add(std::move(request)));
  while (!engine->idle()) {
    TROUPE_ASSIGN_OR_RETURN(std::vector<rollout::Generation> done, engine->Step());
    for (const rollout::Generation& generation : done) {
      TROUPE_RETURN_IF_ERROR(generation.error);
      std::printf("%s\n", tokenizer->Decode(generation.tokens, {.skip_special_tokens = true}).c_str());
    }
  }
  return absl::OkStatus();
}

// A checkpoint without its training state, cast. The folder appears when it is whole.
absl::Status Export(const ExportOptions& given) {
  TROUPE_ASSIGN_OR_RETURN(std::string path, ModelPath(given.checkpoint));
  std::string to = (std::filesystem::path(ExpandHome(given.to)) / "").parent_path().string(), aside = to + ".tmp";
  absl::StatusOr<std::vector<std::string>> there = ListDirectory(to);
  if (!absl::IsNotFound(there.status()) && (!there.ok() || !there->empty())) {
    return absl::InvalidArgumentError(to + " is there already; name a new folder");
  }
  if (FileExists(path + "/MANIFEST.json")) TROUPE_RETURN_IF_ERROR(VerifyCheckpoint(path));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<ModelSource> source, ModelSource::Open(path));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(path));
  HuggingFaceFolderOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.dtype, ParseDtype(given.dtype));
  std::vector<float> values;
  auto read = [&](const ParameterShape& parameter) -> absl::StatusOr<absl::Span<const float>> {
    const TensorInfo* tensor = source->Find(parameter.name);
    if (tensor == nullptr) return absl::NotFoundError(path + " has no tensor " + parameter.name);
    values.resize(static_cast<size_t>(tensor->num_elements()));
    TROUPE_RETURN_IF_ERROR(source->Read(parameter.name, absl::MakeSpan(values)));
    return absl::Span<const float>(values);
  };
  TROUPE_RETURN_IF_ERROR(RemoveTree(aside));
  absl::Status status = WriteHuggingFaceFolder(aside, source->config(), tokenizer.get(), read, options);
  if (status.ok()) status = RenameDurably(aside, to);
  if (!status.ok()) {
    RemoveTree(aside).IgnoreError();
    return status;
  }
  std::fprintf(stderr, "exported %s as %s to %s\n", path.c_str(), given.dtype.c_str(), to.c_str());
  return absl::OkStatus();
}

absl::Status MakeModel(const std::string& what, const std::string& to, uint64_t seed) {
  if (what == "even_digits") return MakeRandomModel(EvenDigitsConfig(), seed, ExpandHome(to));
  TROUPE_ASSIGN_OR_RETURN(std::string text, ReadFile(ExpandHome(what), 1 << 20));
  TROUPE_ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(text));
  return MakeRandomModel(config, seed, ExpandHome(to));
}

int ExitStatusOf(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "troupe: %s\n", MessageOf(status).c_str());
  bool wrong_use = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  return wrong_use ? 2 : 1;
}

}  // namespace

int RunModelCommand(int argc, char** argv) {
  CLI::App app("Commands on models");
  app.require_subcommand(1);
  GenerateOptions generate_options;
  CLI::App* generate = app.add_subcommand("generate", "answers a prompt");
  AddGenerateOptions(*generate, generate_options);
  ExportOptions export_options;
  CLI::App* export_model = app.add_subcommand("export", "writes a checkpoint as a Hugging Face folder");
  AddExportOptions(*export_model, export_options);
  std::string to, what;
  uint64_t seed = 1;
  CLI::App* make_model = app.add_subcommand("make-model", "makes a small random model");
  make_model->add_option("config", what, "a config.json, or even_digits")->required();
  make_model->add_option("--to", to)->required();
  make_model->add_option("--seed", seed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (generate->parsed()) return ExitStatusOf(Generate(generate_options));
  if (export_model->parsed()) return ExitStatusOf(Export(export_options));
  return ExitStatusOf(MakeModel(what, to, seed));
}

}  // namespace troupe
