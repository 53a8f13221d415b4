// SPDX-License-Identifier: Apache-2.0
// A model in a Hugging Face folder: config.json with model.safetensors, or shards and their index.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/model/files/checked_json.h"
#include "actors/model/files/model_source_kinds.h"
#include "actors/model/files/safetensors.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr int64_t kConfigBytesMax = 1 << 20;
constexpr int64_t kIndexBytesMax = 64 << 20;
constexpr size_t kShardsMax = 4096;

absl::StatusOr<nlohmann::json> ReadJson(const std::string& path, int64_t bytes_max) {
  TROUPE_ASSIGN_OR_RETURN(std::string text, ReadFile(path, bytes_max));
  return ParseJson(text, path);
}

// Tensors that some published models carry and that follow from the config.
bool IsDerived(std::string_view name) { return name.size() > 9 && name.substr(name.size() - 9) == ".inv_freq"; }

class FolderSource : public ModelSource {
 public:
  absl::Status Init(const std::string& dir) {
    TROUPE_RETURN_IF_ERROR(ReadConfig(dir));
    TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> names, WeightFiles(dir));
    for (const std::string& name : names) {
      TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(dir + "/" + name));
      files_.push_back(std::move(file));
    }
    TROUPE_RETURN_IF_ERROR(CheckNoNameTwice(names));
    std::set<std::string> used;
    for (const ParameterShape& parameter : ParameterShapes(config_)) {
      TROUPE_RETURN_IF_ERROR(AddParameter(parameter));
      used.insert(parameter.name);
    }
    return CheckNothingElse(used);
  }

 protected:
  absl::Status ReadTensor(size_t index, absl::Span<float> out) const override {
    return stored_[index].first->ReadFloats(*stored_[index].second, out);
  }

 private:
  using Stored = std::pair<const SafetensorsFile*, const SafetensorsEntry*>;

  absl::Status ReadConfig(const std::string& dir) {
    TROUPE_ASSIGN_OR_RETURN(nlohmann::json json, ReadJson(dir + "/config.json", kConfigBytesMax));
    TROUPE_ASSIGN_OR_RETURN(config_, ParseModelConfig(json));
    std::string generation = dir + "/generation_config.json";
    if (!FileExists(generation)) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(json, ReadJson(generation, kConfigBytesMax));
    return MergeGenerationConfig(json, config_);
  }

  // Names inside `dir`.
  static absl::StatusOr<std::vector<std::string>> WeightFiles(const std::string& dir) {
    if (FileExists(dir + "/model.safetensors")) return std::vector<std::string>{"model.safetensors"};
    std::string index_path = dir + "/model.safetensors.index.json";
    if (!FileExists(index_path)) {
      return absl::NotFoundError("neither model.safetensors nor model.safetensors.index.json is there");
    }
    TROUPE_ASSIGN_OR_RETURN(nlohmann::json index, ReadJson(index_path, kIndexBytesMax));
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
      return absl::InvalidArgumentError("model.safetensors.index.json: weight_map is missing");
    }
    std::set<std::string> names;
    for (const auto& [tensor, file] : index["weight_map"].items()) {
      if (!file.is_string() || !IsFileName(file.get_ref<const std::string&>())) {
        return absl::InvalidArgumentError(absl::StrCat("model.safetensors.index.json: the file of '", tensor,
                                                       "' is no name of a file in the folder"));
      }
      names.insert(file.get<std::string>());
      if (names.size() > kShardsMax) return absl::InvalidArgumentError("model.safetensors.index.json: too many files");
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

  // Not a path: an index must not reach out of its folder.
  static bool IsFileName(const std::string& name) {
    return !name.empty() && name.find('/') == name.npos && name != "." && name != "..";
  }

  absl::Status CheckNoNameTwice(const std::vector<std::string>& names) const {
    std::set<std::string_view> seen;
    for (size_t i = 0; i < files_.size(); ++i) {
      for (const SafetensorsEntry& entry : files_[i]->entries()) {
        if (!seen.insert(entry.name).second) {
          return absl::InvalidArgumentError(
              absl::StrCat("tensor '", entry.name, "' of ", names[i], " is in another shard too"));
        }
      }
    }
    return absl::OkStatus();
  }

  Stored FindStored(std::string_view name) const {
    for (const auto& file : files_) {
      if (const SafetensorsEntry* entry = file->Find(name)) return {file.get(), entry};
    }
    return {nullptr, nullptr};
  }

  absl::Status AddParameter(const ParameterShape& parameter) {
    Stored stored = FindStored(parameter.name);
    if (stored.second == nullptr) return MissingTensor(parameter, parameter.name);
    if (stored.second->shape != parameter.shape) return ShapeMismatch(parameter, stored.second->shape);
    ElementType type = stored.second->type;
    if (type != ElementType::kF32 && type != ElementType::kF16 && type != ElementType::kBF16 &&
        type != ElementType::kF64) {
      return absl::UnimplementedError(absl::StrCat("tensor '", parameter.name, "' has type ", ElementTypeName(type),
                                                   "; a weight is F32, F16, BF16 or F64"));
    }
    AddTensor({parameter.name, parameter.shape, ElementTypeName(type)});
    stored_.push_back(stored);
    return absl::OkStatus();
  }

  absl::Status CheckNothingElse(const std::set<std::string>& used) const {
    for (const auto& file : files_) {
      for (const SafetensorsEntry& entry : file->entries()) {
        if (used.count(entry.name) != 0 || IsDerived(entry.name)) continue;
        // Some tied models store the head as well; it is the embedding.
        if (config_.tie_word_embeddings && entry.name == "lm_head.weight") continue;
        return absl::InvalidArgumentError(
            absl::StrCat("tensor '", entry.name, "' is in the files but the model's config does not imply it"));
      }
    }
    return absl::OkStatus();
  }

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<Stored> stored_;  // of each of tensors()
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelSource>> OpenFolderSource(const std::string& dir) {
  auto source = std::make_unique<FolderSource>();
  absl::Status status = source->Init(dir);
  if (!status.ok()) return Annotate(status, dir);
  return source;
}

}  // namespace troupe
