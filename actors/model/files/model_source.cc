// SPDX-License-Identifier: Apache-2.0
// What both kinds of model on disk share.
#include "actors/model/files/model_source.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "actors/model/files/model_source_kinds.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

std::string ShapeText(absl::Span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

}  // namespace

absl::StatusOr<std::unique_ptr<ModelSource>> ModelSource::Open(const std::string& path) {
  const absl::StatusOr<FileInfo> info = StatFile(path);
  if (absl::IsNotFound(info.status())) return absl::NotFoundError(absl::StrCat("no model at ", path));
  if (!info.ok()) return info.status();
  return info->is_folder ? OpenFolderSource(path) : OpenGgufSource(path);
}

const TensorInfo* ModelSource::Find(std::string_view name) const {
  auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

absl::Status ModelSource::Read(std::string_view name, absl::Span<float> out) const {
  const TensorInfo* info = Find(name);
  if (info == nullptr) return absl::NotFoundError(absl::StrCat("the model has no tensor '", std::string(name), "'"));
  if (static_cast<int64_t>(out.size()) != info->num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", info->name, "' ", ShapeText(info->shape), " does not fit in ", out.size(), " floats"));
  }
  return ReadTensor(static_cast<size_t>(info - tensors_.data()), out);
}

void ModelSource::AddTensor(TensorInfo info) {
  index_[info.name] = tensors_.size();
  tensors_.push_back(std::move(info));
}

absl::Status ShapeMismatch(const ParameterShape& expected, absl::Span<const int64_t> found) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", expected.name, "' has shape ", ShapeText(found),
                                                 "; the model's config implies ", ShapeText(expected.shape)));
}

absl::Status MissingTensor(const ParameterShape& expected, const std::string& stored_name) {
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor '", stored_name, "' is missing; the model's config implies it, with shape ", ShapeText(expected.shape)));
}

}  // namespace troupe
