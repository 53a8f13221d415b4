// SPDX-License-Identifier: Apache-2.0
// Writing a model as a Hugging Face folder that Transformers loads.
#include "actors/model/files/hugging_face_folder.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actors/model/files/safetensors.h"
#include "actors/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

const char* DtypeName(ElementType type) {
  return type == ElementType::kBF16 ? "bfloat16" : type == ElementType::kF16 ? "float16" : "float32";
}

absl::Status WriteJson(const std::string& path, const OrderedJson& json) {
  return WriteFileAtomic(path, json.dump(2) + "\n");
}

// The parameters of each file, in order; a file is closed before it would pass `bytes_max`.
std::vector<std::vector<SafetensorsEntry>> Shards(const ModelConfig& config, ElementType dtype, int64_t bytes_max) {
  std::vector<std::vector<SafetensorsEntry>> shards(1);
  int64_t bytes = 0;
  for (ParameterShape& parameter : ParameterShapes(config)) {
    SafetensorsEntry entry{std::move(parameter.name), dtype, std::move(parameter.shape)};
    int64_t entry_bytes = entry.num_elements() * ElementBytes(dtype);
    if (!shards.back().empty() && bytes + entry_bytes > bytes_max) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += entry_bytes;
    shards.back().push_back(std::move(entry));
  }
  return shards;
}

absl::Status WriteShard(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                        const ParameterReader& read) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                          SafetensorsWriter::Create(path, entries, {{"format", "pt"}}));
  for (const SafetensorsEntry& entry : entries) {
    TROUPE_ASSIGN_OR_RETURN(absl::Span<const float> values, read({entry.name, entry.shape}));
    TROUPE_RETURN_IF_ERROR(writer->WriteFloats(entry.name, values));
  }
  return writer->Finish();
}

absl::Status WriteWeights(const std::string& dir, const ModelConfig& config, const ParameterReader& read,
                          const HuggingFaceFolderOptions& options) {
  std::vector<std::vector<SafetensorsEntry>> shards = Shards(config, options.dtype, options.shard_bytes_max);
  if (shards.size() == 1) return WriteShard(dir + "/model.safetensors", shards[0], read);
  OrderedJson map = OrderedJson::object();
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    std::string name = absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, shards.size());
    TROUPE_RETURN_IF_ERROR(WriteShard(absl::StrCat(dir, "/", name), shards[i], read));
    for (const SafetensorsEntry& entry : shards[i]) {
      map[entry.name] = name;
      total += entry.num_elements() * ElementBytes(entry.type);
    }
  }
  return WriteJson(dir + "/model.safetensors.index.json", {{"metadata", {{"total_size", total}}}, {"weight_map", map}});
}

}  // namespace

absl::Status WriteHuggingFaceFolder(const std::string& dir, const ModelConfig& config, const Tokenizer* tokenizer,
                                    const ParameterReader& read, const HuggingFaceFolderOptions& options) {
  TROUPE_RETURN_IF_ERROR(ValidateModelConfig(config));
  if (options.dtype != ElementType::kF32 && options.dtype != ElementType::kBF16 && options.dtype != ElementType::kF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights are written as float32, bfloat16 or float16, not ", ElementTypeName(options.dtype)));
  }
  TROUPE_RETURN_IF_ERROR(MakeDirs(dir));
  ModelConfig written = config;
  written.dtype = DtypeName(options.dtype);
  TROUPE_RETURN_IF_ERROR(WriteJson(dir + "/config.json", ModelConfigToJson(written)));
  TROUPE_RETURN_IF_ERROR(WriteJson(dir + "/generation_config.json", GenerationConfigToJson(written)));
  if (tokenizer != nullptr) {
    TROUPE_RETURN_IF_ERROR(WriteFileAtomic(dir + "/tokenizer.json", tokenizer->ToTokenizerJson()));
    TROUPE_RETURN_IF_ERROR(WriteFileAtomic(dir + "/tokenizer_config.json", tokenizer->ToTokenizerConfigJson()));
    TROUPE_RETURN_IF_ERROR(WriteFileAtomic(dir + "/special_tokens_map.json", tokenizer->ToSpecialTokensMapJson()));
  }
  return WriteWeights(dir, written, read, options);
}

}  // namespace troupe
