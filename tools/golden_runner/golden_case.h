// SPDX-License-Identifier: Apache-2.0
// Cases of a golden folder: inputs and right outputs of public reference implementations.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace troupe::golden {

struct Case {
  std::string folder;  // where the file lies: model folders are relative to it
  std::string name;
  std::string function;
  std::string source;
  nlohmann::json config;
  nlohmann::json dtypes;
  nlohmann::json inputs;  // `inputs_from` resolved
  nlohmann::json outputs;
  std::string suspect_kind;  // of suspect.json, "" for most: "bug", "precision", "surprise", ...

  // "float32", "float64", ... of a tensor, "out:" before an output's name; `otherwise` if it is not told.
  std::string Dtype(const std::string& tensor, const std::string& otherwise) const {
    return dtypes.is_object() && dtypes.contains(tensor) ? dtypes[tensor].get<std::string>() : otherwise;
  }
  bool refused() const { return outputs.contains("error"); }
};

// Every case of DIR/*.json that has the format ("file" and "cases"); other JSON files are passed over.
// INVALID_ARGUMENT names a file that is no JSON, or a case whose `inputs_from` does not resolve.
absl::StatusOr<std::vector<Case>> LoadFolder(const std::string& dir);
absl::StatusOr<std::vector<Case>> LoadFile(const std::string& path, const std::string& suspect_path);

}  // namespace troupe::golden
