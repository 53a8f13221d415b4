// SPDX-License-Identifier: Apache-2.0
// Checkpoints on disk: one cut of everything a run needs, whole or not there at all.
//
//   ROOT/step_N.tmp/...            while it is written, by however many processes
//   ROOT/step_N/...                after the commit: the parts, and MANIFEST.json with size and SHA-256 of each file
//   ROOT/step_N.given_up/...       a whole or damaged one that the run does not go on from any more
//
// Order: BeginCheckpoint, everybody writes and syncs files in the folder it names, CommitCheckpoint. Only the rename
// inside the commit makes it exist. The functions are for one writer of ROOT at a time; reading needs none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

struct CheckpointInfo {
  int64_t step = 0;
  std::string dir;
};

// Makes ROOT/step_N.tmp, empty, and gives its path. What a broken attempt left there is removed.
// RESOURCE_EXHAUSTED: no space.
absl::StatusOr<std::string> BeginCheckpoint(const std::string& root, int64_t step);

// Writes the manifest of every file in the folder, syncs, and renames step_N.tmp to step_N. After OK it survives a loss
// of power. An earlier checkpoint of that step is given up first and removed last: a crash between loses neither.
absl::StatusOr<CheckpointInfo> CommitCheckpoint(const std::string& root, int64_t step);

// DATA_LOSS names the file that is missing, of another size or of another checksum, or the manifest that cannot be
// read.
absl::Status VerifyCheckpoint(const std::string& dir);

// Committed ones by step, oldest first, not verified; none that were given up. Empty if ROOT is not there.
absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(const std::string& root);

// The newest one that verifies. Those passed over are told in `refused` (unless null), one message each.
// NOT_FOUND if there is none.
absl::StatusOr<CheckpointInfo> LatestCheckpoint(const std::string& root, std::vector<std::string>* refused);

// For a run that goes on from `step`: renames every later one to step_N.given_up, in place of an earlier one of that
// name. So the newest is always of the run's own course; a person may still resume or export a given up one by name.
// Returns a sentence about each.
absl::StatusOr<std::vector<std::string>> GiveUpCheckpointsAfter(const std::string& root, int64_t step);

// After the commit of `step`: removes the oldest before it until at most `max_checkpoints` are left (0 or less: keeps
// all), likewise of those given up, and attempts never committed.
absl::Status PruneCheckpoints(const std::string& root, int64_t step, int64_t max_checkpoints);

}  // namespace troupe
