// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/job_model.h"

#include <memory>

#include "actors/model/files/random_model.h"
#include "actors/tokenizer/tokenizer.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr int64_t kSmallFileBytesMax = int64_t{256} << 20;

// Made aside and renamed, so that of several workers that start together one wins and all see a whole folder.
absl::Status MakeInitialModel(const ModelSection& model, const std::string& directory, const std::string& aside) {
  TROUPE_ASSIGN_OR_RETURN(std::string text, ReadFile(model.path + "/config.json", kSmallFileBytesMax));
  absl::StatusOr<ModelConfig> config = ParseModelConfig(text);
  if (!config.ok()) return Annotate(config.status(), model.path + "/config.json");
  TROUPE_RETURN_IF_ERROR(RemoveTree(aside));
  std::unique_ptr<Tokenizer> tokenizer;
  if (FileExists(model.path + "/tokenizer.json")) {
    TROUPE_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(model.path));
  }
  TROUPE_RETURN_IF_ERROR(MakeRandomModel(*config, static_cast<uint64_t>(model.seed), aside, tokenizer.get()));
  const std::string generation = "/generation_config.json";
  if (FileExists(model.path + generation)) {
    TROUPE_ASSIGN_OR_RETURN(std::string content, ReadFile(model.path + generation, kSmallFileBytesMax));
    TROUPE_RETURN_IF_ERROR(WriteFileAtomic(aside + generation, content));
  }
  absl::Status renamed = RenameDurably(aside, directory);
  if (renamed.ok() || !FileExists(directory + "/config.json")) return renamed;
  return RemoveTree(aside);  // another worker was first
}

}  // namespace

absl::StatusOr<JobConfig> JobOf(const ActorContext& context) {
  TROUPE_ASSIGN_OR_RETURN(JobConfig config, JobConfigFromJson(context.setting().config_json));
  if (config.model.init != "random") return config;
  const std::string& output_dir = context.setting().output_dir;
  std::string directory = output_dir + "/initial_model";
  if (!FileExists(directory + "/config.json")) {
    std::string role = context.self().path.role + "-" + std::to_string(context.self().path.replica);
    TROUPE_RETURN_IF_ERROR(MakeDirs(output_dir));
    TROUPE_RETURN_IF_ERROR(MakeInitialModel(config.model, directory, directory + ".tmp-" + role));
  }
  config.model.path = directory;
  return config;
}

}  // namespace troupe
