// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/adamw_state.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/model/files/safetensors.h"
#include "actors/trainer/core/adamw.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr const char* kFirst = "exp_avg.";
constexpr const char* kSecond = "exp_avg_sq.";

absl::Status WriteMoments(const char* prefix, const ModelWeights& moments, SafetensorsWriter& writer) {
  for (const WeightEntry& entry : moments.layout().entries) {
    const std::span<float> values = moments.Float32(entry.name);
    TROUPE_RETURN_IF_ERROR(writer.WriteFloats(absl::StrCat(prefix, entry.name), {values.data(), values.size()}));
  }
  return absl::OkStatus();
}

absl::Status ReadMoments(const char* prefix, const SafetensorsFile& file, ModelWeights& moments) {
  for (const WeightEntry& entry : moments.layout().entries) {
    const std::string name = absl::StrCat(prefix, entry.name);
    const SafetensorsEntry* found = file.Find(name);
    if (found == nullptr || found->num_elements() != entry.elements()) {
      return absl::InvalidArgumentError(absl::StrCat("the optimizer's state has ",
                                                     found == nullptr ? "no tensor " : "another size for ", name,
                                                     ": it was written for another model"));
    }
    const std::span<float> values = moments.Float32(entry.name);
    TROUPE_RETURN_IF_ERROR(file.ReadFloats(*found, absl::MakeSpan(values.data(), values.size())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<float> FlatFloats(const ModelWeights& weights) {
  return absl::MakeSpan(reinterpret_cast<float*>(weights.bytes().data()), weights.bytes().size() / sizeof(float));
}

AdamWState::AdamWState(const WeightLayout& layout)
    : exp_avg_(ModelWeights::Allocate(layout)), exp_avg_sq_(ModelWeights::Allocate(layout)) {}

OptimizerStepResult AdamWState::Step(const OptimOptions& options, double lr, const ModelWeights& gradients,
                                     ModelWeights& weights) {
  OptimizerStepResult result;
  result.grad_norm = GradNorm(FlatFloats(gradients));
  if (!std::isfinite(result.grad_norm)) {
    result.skipped = true;
    return result;
  }
  ++steps_;
  AdamWUpdate<float>(
      {.lr = lr,
       .beta1 = options.betas[0],
       .beta2 = options.betas[1],
       .eps = options.eps,
       .weight_decay = options.weight_decay,
       .step = steps_,
       .grad_scale = ClipFactor(static_cast<float>(result.grad_norm), static_cast<float>(options.clip_grad))},
      FlatFloats(gradients), FlatFloats(weights), FlatFloats(exp_avg_), FlatFloats(exp_avg_sq_));
  return result;
}

absl::Status AdamWState::Save(const std::string& path) const {
  std::vector<SafetensorsEntry> entries;
  for (const char* prefix : {kFirst, kSecond}) {
    for (const WeightEntry& entry : exp_avg_.layout().entries) {
      SafetensorsEntry named;
      named.name = absl::StrCat(prefix, entry.name);
      named.type = ElementType::kF32;
      named.shape = entry.shape;
      entries.push_back(std::move(named));
    }
  }
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                          SafetensorsWriter::Create(path, std::move(entries), {{"format", "pt"}}));
  TROUPE_RETURN_IF_ERROR(WriteMoments(kFirst, exp_avg_, *writer));
  TROUPE_RETURN_IF_ERROR(WriteMoments(kSecond, exp_avg_sq_, *writer));
  return writer->Finish();
}

absl::Status AdamWState::Load(const std::string& path, int64_t steps) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  AdamWState loaded(exp_avg_.layout());
  TROUPE_RETURN_IF_ERROR(ReadMoments(kFirst, *file, loaded.exp_avg_));
  TROUPE_RETURN_IF_ERROR(ReadMoments(kSecond, *file, loaded.exp_avg_sq_));
  exp_avg_ = loaded.exp_avg_;
  exp_avg_sq_ = loaded.exp_avg_sq_;
  steps_ = steps;
  return absl::OkStatus();
}

}  // namespace troupe
