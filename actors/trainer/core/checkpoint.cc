// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/model/files/checked_json.h"
#include "actors/trainer/core/file_digest.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr const char* kManifest = "MANIFEST.json";
constexpr const char* kUnfinished = ".tmp";
constexpr const char* kGivenUp = ".given_up";
constexpr int64_t kManifestBytesMax = 16 << 20;  // tens of thousands of files
constexpr int kFormat = 1;

std::string DirOf(const std::string& root, int64_t step) { return absl::StrCat(root, "/step_", step); }

// The step of "step_N" and the suffix, or -1.
int64_t StepOf(std::string_view name, std::string_view suffix) {
  constexpr std::string_view kPrefix = "step_";
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) return -1;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(suffix.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

// By step, oldest first. Empty if ROOT is not there.
absl::StatusOr<std::vector<CheckpointInfo>> ListWith(const std::string& root, std::string_view suffix) {
  std::vector<CheckpointInfo> found;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(root);
  if (absl::IsNotFound(names.status())) return found;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const int64_t step = StepOf(name, suffix);
    if (step >= 0) found.push_back({.step = step, .dir = absl::StrCat(root, "/", name)});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

absl::Status GiveUp(const CheckpointInfo& info) {
  TROUPE_RETURN_IF_ERROR(RemoveTree(info.dir + kGivenUp));
  return RenameDurably(info.dir, info.dir + kGivenUp);
}

// The oldest, until `max` are left.
absl::Status RemoveSurplus(const std::vector<CheckpointInfo>& found, int64_t max) {
  const int64_t surplus = max > 0 ? std::ssize(found) - max : 0;
  for (int64_t i = 0; i < surplus; ++i) TROUPE_RETURN_IF_ERROR(RemoveTree(found[static_cast<size_t>(i)].dir));
  return absl::OkStatus();
}

// Paths below `dir` of every file but the manifest, sorted; folders are synced, files were by whoever wrote them.
absl::Status CollectFiles(const std::string& dir, const std::string& below, std::vector<std::string>& files) {
  const std::string folder = below.empty() ? dir : absl::StrCat(dir, "/", below);
  TROUPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    const std::string path = below.empty() ? name : absl::StrCat(below, "/", name);
    if (ListDirectory(absl::StrCat(dir, "/", path)).ok()) {  // a folder
      TROUPE_RETURN_IF_ERROR(CollectFiles(dir, path, files));
    } else if (path != kManifest) {
      files.push_back(path);
    }
  }
  return SyncDirectory(folder);
}

absl::Status Damaged(const std::string& dir, const std::string& what) {
  return absl::DataLossError(absl::StrCat("checkpoint ", dir, ": ", what));
}

absl::Status VerifyFile(const std::string& dir, const nlohmann::json& entry) {
  if (!entry.is_object() || !entry.contains("path") || !entry["path"].is_string() || !entry.contains("bytes") ||
      !entry["bytes"].is_number_integer() || !entry.contains("sha256") || !entry["sha256"].is_string()) {
    return Damaged(dir, "its manifest has an entry without path, bytes and sha256");
  }
  const std::string path = entry["path"];
  const absl::StatusOr<FileDigest> digest = DigestFile(absl::StrCat(dir, "/", path));
  if (!digest.ok()) return Damaged(dir, absl::StrCat(path, " cannot be read: ", MessageOf(digest.status())));
  if (digest->bytes != entry["bytes"].get<int64_t>()) {
    return Damaged(dir, absl::StrCat(path, " has ", digest->bytes, " bytes, not ", entry["bytes"].get<int64_t>()));
  }
  if (digest->sha256 != entry["sha256"].get<std::string>()) return Damaged(dir, path + " has another checksum");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> BeginCheckpoint(const std::string& root, int64_t step) {
  const std::string dir = DirOf(root, step) + kUnfinished;
  TROUPE_RETURN_IF_ERROR(RemoveTree(dir));
  TROUPE_RETURN_IF_ERROR(MakeDirs(dir));
  return dir;
}

absl::StatusOr<CheckpointInfo> CommitCheckpoint(const std::string& root, int64_t step) {
  const std::string dir = DirOf(root, step);
  const std::string aside = dir + kUnfinished;
  std::vector<std::string> files;
  TROUPE_RETURN_IF_ERROR(CollectFiles(aside, "", files));
  nlohmann::ordered_json manifest = {{"format", kFormat}, {"step", step}, {"files", nlohmann::json::array()}};
  for (const std::string& path : files) {
    TROUPE_ASSIGN_OR_RETURN(const FileDigest digest, DigestFile(absl::StrCat(aside, "/", path)));
    manifest["files"].push_back({{"path", path}, {"bytes", digest.bytes}, {"sha256", digest.sha256}});
  }
  TROUPE_RETURN_IF_ERROR(WriteFileAtomic(absl::StrCat(aside, "/", kManifest), manifest.dump(1) + "\n"));
  const CheckpointInfo info{.step = step, .dir = dir};
  const bool again = FileExists(dir);  // the controller died before it knew of its commit
  if (again) TROUPE_RETURN_IF_ERROR(GiveUp(info));
  TROUPE_RETURN_IF_ERROR(RenameDurably(aside, dir));
  if (again) TROUPE_RETURN_IF_ERROR(RemoveTree(dir + kGivenUp));
  return info;
}

absl::Status VerifyCheckpoint(const std::string& dir) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(dir, "/", kManifest), kManifestBytesMax);
  if (!text.ok()) return Damaged(dir, absl::StrCat("no manifest: ", MessageOf(text.status())));
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(*text, kManifest);
  if (!parsed.ok()) return Damaged(dir, MessageOf(parsed.status()));
  const nlohmann::json& manifest = *parsed;
  const bool known = manifest.is_object() && manifest.contains("format") && manifest["format"] == kFormat &&
                     manifest.contains("files") && manifest["files"].is_array() && !manifest["files"].empty();
  if (!known) return Damaged(dir, "its manifest is not one of this version");
  for (const nlohmann::json& entry : manifest["files"]) TROUPE_RETURN_IF_ERROR(VerifyFile(dir, entry));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(const std::string& root) { return ListWith(root, ""); }

absl::StatusOr<CheckpointInfo> LatestCheckpoint(const std::string& root, std::vector<std::string>* refused) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> found, ListCheckpoints(root));
  for (auto info = found.rbegin(); info != found.rend(); ++info) {
    const absl::Status status = VerifyCheckpoint(info->dir);
    if (status.ok()) return *info;
    if (refused != nullptr) refused->push_back(MessageOf(status));
  }
  return absl::NotFoundError(absl::StrCat("no checkpoint in ", root, found.empty() ? "" : " is whole"));
}

absl::StatusOr<std::vector<std::string>> GiveUpCheckpointsAfter(const std::string& root, int64_t step) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> found, ListCheckpoints(root));
  std::vector<std::string> told;
  for (const CheckpointInfo& info : found) {
    if (info.step <= step) continue;
    TROUPE_RETURN_IF_ERROR(GiveUp(info));
    told.push_back(absl::StrCat(info.dir, " is given up, since the run goes on from step ", step,
                                "; until it is pruned it can be used as ", info.dir, kGivenUp));
  }
  return told;
}

absl::Status PruneCheckpoints(const std::string& root, int64_t step, int64_t max_checkpoints) {
  TROUPE_ASSIGN_OR_RETURN(std::vector<CheckpointInfo> found, ListCheckpoints(root));
  std::erase_if(found, [&](const CheckpointInfo& info) { return info.step > step; });
  TROUPE_RETURN_IF_ERROR(RemoveSurplus(found, max_checkpoints));
  TROUPE_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> given_up, ListWith(root, kGivenUp));
  TROUPE_RETURN_IF_ERROR(RemoveSurplus(given_up, max_checkpoints));
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(root);
  if (!names.ok()) return absl::IsNotFound(names.status()) ? absl::OkStatus() : names.status();
  for (const std::string& name : *names) {
    const bool unfinished =
        name.rfind("step_", 0) == 0 && name.size() > 4 && name.substr(name.size() - 4) == kUnfinished;
    if (unfinished) TROUPE_RETURN_IF_ERROR(RemoveTree(absl::StrCat(root, "/", name)));
  }
  return absl::OkStatus();
}

}  // namespace troupe
