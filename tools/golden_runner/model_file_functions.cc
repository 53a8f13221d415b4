// SPDX-License-Identifier: Apache-2.0
// Golden functions of model files: SmolLM2's metadata, its tensors' places and their dequantised values.
#include <cmath>
#include <memory>

#include "actors/model/files/gguf.h"
#include "actors/model/files/model_source.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tools/golden_runner/golden_check.h"
#include "tools/golden_runner/smollm2_model.h"

namespace troupe::golden {

std::string SmolLm2Path() {
  const std::string given = EnvironmentVariable("TROUPE_MODEL");
  if (!given.empty()) return given;
  const std::string cache = EnvironmentVariable("XDG_CACHE_HOME");
  return (cache.empty() ? ExpandHome("~/.cache") : cache) + "/troupe/SmolLM2-135M-Instruct.gguf";
}

absl::StatusOr<const ModelSource*> SmolLm2Source() {
  static const auto* source = new absl::StatusOr<std::unique_ptr<ModelSource>>(ModelSource::Open(SmolLm2Path()));
  if (!source->ok()) return source->status();
  return (*source)->get();
}

absl::StatusOr<ModelWeights> SmolLm2Weights() {
  static const auto* weights = new absl::StatusOr<ModelWeights>([]() -> absl::StatusOr<ModelWeights> {
    TROUPE_ASSIGN_OR_RETURN(const ModelSource* const source, SmolLm2Source());
    return LoadWeights(*source);
  }());
  return *weights;
}

namespace {

void RunDequantise(const Case& one, Check& check) {
  const absl::StatusOr<const ModelSource*> source = SmolLm2Source();
  if (!source.ok()) return check.That(false, MessageOf(source.status()));
  const std::string name = one.config.at("hf_name");
  const TensorInfo* info = (*source)->Find(name);
  if (info == nullptr) return check.That(false, "no tensor " + name);
  check.That(info->stored_type == one.config.at("type").get<std::string>(), "another type: " + info->stored_type);
  std::vector<double> shape(info->shape.begin(), info->shape.end());
  check.Near("shape", shape, NumbersOf(one.config.at("shape")), {});
  std::vector<float> values(static_cast<size_t>(info->num_elements()));
  const absl::Status read = (*source)->Read(name, absl::MakeSpan(values));
  if (!read.ok()) return check.That(false, MessageOf(read));
  std::vector<double> probes;
  for (double at : NumbersOf(one.inputs.at("flat_index"))) probes.push_back(values.at(static_cast<size_t>(at)));
  std::vector<double> want;  // float32 numbers, written as the shortest decimals that read back as them
  for (double value : NumbersOf(one.outputs.at("hf_values"))) want.push_back(static_cast<float>(value));
  check.Near("values", probes, want, {});
  double sum = 0;
  double squares = 0;
  for (float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  check.Near("sum", sum, NumbersOf(one.outputs.at("hf_sum_f64"))[0], {.rtol = 1e-9, .atol = 1e-7});
  check.Near("norm", std::sqrt(squares), NumbersOf(one.outputs.at("hf_norm_f64"))[0], {.rtol = 1e-9});
}

const absl::StatusOr<std::unique_ptr<GgufFile>>& SmolLm2File() {
  static const auto* file = new absl::StatusOr<std::unique_ptr<GgufFile>>(GgufFile::Open(SmolLm2Path()));
  return *file;
}

// A value of the file's metadata as the case writes it: {"len": n} for a long array.
absl::StatusOr<nlohmann::json> MetadataOf(const GgufFile& file, const std::string& key, const nlohmann::json& want) {
  if (key == "GGUF.version") return file.version();
  if (key == "GGUF.tensor_count") return file.tensors().size();
  if (key == "GGUF.kv_count") return file.metadata().size();
  if (!file.Has(key)) return absl::NotFoundError("no metadata " + key);
  const auto json = [](const auto& value) -> absl::StatusOr<nlohmann::json> {
    if (!value.ok()) return value.status();
    return nlohmann::json(*value);
  };
  if (want.is_object()) return nlohmann::json{{"len", file.metadata().find(key)->second.count}};
  if (want.is_string()) return json(file.String(key));
  if (want.is_boolean()) return json(file.Bool(key));
  if (want.is_array()) return json(file.Strings(key));
  if (file.metadata().find(key)->second.type != GgufValueType::kFloat32) return json(file.Int(key));
  TROUPE_ASSIGN_OR_RETURN(const double value, file.Number(key));
  return nlohmann::json(static_cast<double>(static_cast<float>(value)));  // the case has all digits of the float32
}

void RunMetadata(const Case& one, Check& check) {
  const auto& file = SmolLm2File();
  if (!file.ok()) return check.That(false, MessageOf(file.status()));
  for (const auto& [key, want] : one.outputs.at("metadata").items()) {
    const absl::StatusOr<nlohmann::json> got = MetadataOf(**file, key, want);
    check.That(got.ok() && *got == want, key + ": " + (got.ok() ? got->dump() : MessageOf(got.status())));
  }
}

void RunTensors(const Case& one, Check& check) {
  const auto& file = SmolLm2File();
  if (!file.ok()) return check.That(false, MessageOf(file.status()));
  const nlohmann::json& want = one.outputs.at("tensors");
  check.That((*file)->tensors().size() == want.size(), "another number of tensors");
  for (size_t i = 0; i < want.size() && check.ok(); ++i) {
    const GgufTensor& tensor = (*file)->tensors()[i];
    const nlohmann::json got = {{"name", tensor.name},
                                {"shape", std::vector<int64_t>(tensor.shape.rbegin(), tensor.shape.rend())},
                                {"type", tensor.type->name},
                                {"offset", tensor.offset},
                                {"bytes", tensor.bytes.size()}};
    check.That(got == want[i], got.dump() + ", not " + want[i].dump());
  }
}

[[maybe_unused]] const bool kRegistered = Register("dequantise", &RunDequantise) &&
                                          Register("gguf_metadata", &RunMetadata) &&
                                          Register("gguf_tensors", &RunTensors);

}  // namespace
}  // namespace troupe::golden
