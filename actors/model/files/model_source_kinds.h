// SPDX-License-Identifier: Apache-2.0
// The two kinds of model on disk behind ModelSource.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "actors/model/files/model_source.h"

namespace troupe {

absl::StatusOr<std::unique_ptr<ModelSource>> OpenGgufSource(const std::string& path);
absl::StatusOr<std::unique_ptr<ModelSource>> OpenFolderSource(const std::string& dir);

// A tensor found in the files, already under its Hugging Face name, differs from what the configuration implies.
absl::Status ShapeMismatch(const ParameterShape& expected, absl::Span<const int64_t> found);
absl::Status MissingTensor(const ParameterShape& expected, const std::string& stored_name);

}  // namespace troupe
