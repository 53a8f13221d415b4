// SPDX-License-Identifier: Apache-2.0
#include "tools/golden_runner/golden_case.h"

#include <fnmatch.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe::golden {
namespace {

constexpr int64_t kFileBytesMax = 256 << 20;

struct Suspect {
  std::string file, pattern, kind;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

absl::StatusOr<nlohmann::json> ReadJson(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kFileBytesMax));
  nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(path, " is not JSON"));
  return value;
}

std::vector<Suspect> ReadSuspects(const std::string& path) {
  std::vector<Suspect> suspects;
  const absl::StatusOr<nlohmann::json> list = ReadJson(path);
  if (!list.ok() || !list->is_array()) return suspects;
  for (const nlohmann::json& entry : *list) {
    suspects.push_back({entry.value("file", ""), entry.value("cases", ""), entry.value("kind", "")});
  }
  return suspects;
}

std::string SuspectKind(const std::vector<Suspect>& suspects, const std::string& file, const std::string& name) {
  std::string kind;
  for (const Suspect& suspect : suspects) {
    if (suspect.file != file || fnmatch(suspect.pattern.c_str(), name.c_str(), 0) != 0) continue;
    if (kind.empty() || suspect.kind == "bug") kind = suspect.kind;  // a bug outweighs the rest
  }
  return kind;
}

absl::StatusOr<Case> ParseCase(const nlohmann::json& value, const std::map<std::string, nlohmann::json>& inputs) {
  Case result;
  result.name = value.value("case", "");
  result.function = value.value("function", "");
  result.source = value.value("source", "");
  result.config = value.value("config", nlohmann::json::object());
  result.dtypes = value.value("dtypes", nlohmann::json::object());
  result.outputs = value.value("outputs", nlohmann::json::object());
  result.inputs = value.value("inputs", nlohmann::json::object());
  if (value.contains("inputs_from")) {
    const auto found = inputs.find(value["inputs_from"].get<std::string>());
    if (found == inputs.end()) {
      return absl::InvalidArgumentError(absl::StrCat(result.name, ": inputs_from names no earlier case"));
    }
    result.inputs = found->second;
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<Case>> LoadFile(const std::string& path, const std::string& suspect_path) {
  TROUPE_ASSIGN_OR_RETURN(const nlohmann::json file, ReadJson(path));
  std::vector<Case> cases;
  if (!file.is_object() || !file.contains("cases") || !file.contains("file")) return cases;
  const std::vector<Suspect> suspects = ReadSuspects(suspect_path);
  std::map<std::string, nlohmann::json> inputs;
  for (const nlohmann::json& value : file["cases"]) {
    absl::StatusOr<Case> parsed = ParseCase(value, inputs);
    if (!parsed.ok()) return Annotate(parsed.status(), path);
    parsed->folder = FolderOf(path);
    parsed->suspect_kind = SuspectKind(suspects, file["file"], parsed->name);
    if (value.contains("inputs")) inputs[parsed->name] = parsed->inputs;
    cases.push_back(*std::move(parsed));
  }
  return cases;
}

absl::StatusOr<std::vector<Case>> LoadFolder(const std::string& dir) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(dir));
  std::vector<Case> cases;
  for (const std::string& name : names) {
    if (name.size() < 5 || name.substr(name.size() - 5) != ".json") continue;
    TROUPE_ASSIGN_OR_RETURN(std::vector<Case> of_file, LoadFile(dir + "/" + name, dir + "/suspect.json"));
    for (Case& one : of_file) cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace troupe::golden
