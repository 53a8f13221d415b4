// SPDX-License-Identifier: Apache-2.0
// Golden functions of model files: SmolLM2's dequantised tensors.
#include <cmath>
#include <memory>

#include "actors/model/files/model_source.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tools/golden_runner/golden_check.h"
#include "tools/golden_runner/smollm2_model.h"

namespace troupe::golden {

absl::StatusOr<const ModelSource*> SmolLm2Source() {
  static const auto* source = new absl::StatusOr<std::unique_ptr<ModelSource>>([] {
    const std::string cache = EnvironmentVariable("XDG_CACHE_HOME");
    const std::string folder = cache.empty() ? ExpandHome("~/.cache") : cache;
    const std::string given = EnvironmentVariable("TROUPE_MODEL");
    return ModelSource::Open(given.empty() ? folder + "/troupe/SmolLM2-135M-Instruct.gguf" : given);
  }());
  if (!source->ok()) return source->status();
  return (*source)->get();
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

[[maybe_unused]] const bool kRegistered = Register("dequantise", &RunDequantise);

}  // namespace
}  // namespace troupe::golden
