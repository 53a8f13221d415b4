// SPDX-License-Identifier: Apache-2.0
// WeightTransfer: the receiving side of begin -> bucket ... -> commit | abort as a pure state machine. It knows which
// version serves and which buckets of the next one are good; it touches no bytes and no clock.
//
//            Begin             last Accept            Commit
//   idle ------------> open ----------------> whole ----------> idle (the new version serves)
//     ^                  |                      |
//     +------ Abort -----+-------- Abort -------+                (the old version serves on)
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "troupe/v1/weights.pb.h"

namespace troupe {

class WeightTransfer {
 public:
  // Opens a transfer; one that was open for another version is aborted. The same manifest again goes on where it was.
  // INVALID_ARGUMENT: the manifest is broken. ABORTED: an older attempt than the one that serves (its sender was
  // replaced). FAILED_PRECONDITION: not newer than the version that serves. ALREADY_EXISTS: that very version serves.
  absl::Status Begin(const v1::WeightManifest& manifest);

  // The bucket `next()` has arrived: `size` bytes whose checksum, computed here, is `crc32c`. DATA_LOSS: it is not what
  // the manifest says; ask for it again. OUT_OF_RANGE: another bucket than the next one. FAILED_PRECONDITION: nothing
  // open.
  absl::Status Accept(int64_t index, int64_t size, uint32_t crc32c);

  // The first bucket that is not here yet; where a broken transfer is resumed.
  int64_t next() const { return next_; }
  bool open() const { return manifest_.has_value(); }
  bool whole() const;
  // Of the open transfer.
  const v1::WeightManifest& manifest() const { return *manifest_; }

  // The open version serves from now on. FAILED_PRECONDITION: `version` is not open or not whole.
  absl::Status Commit(const v1::WeightVersion& version);
  // Forgets the open transfer. Harmless when there is none.
  void Abort();

  // What serves; nothing before the first commit.
  const std::optional<v1::WeightVersion>& serving() const { return serving_; }

 private:
  std::optional<v1::WeightVersion> serving_;
  std::optional<v1::WeightManifest> manifest_;
  int64_t next_ = 0;
};

}  // namespace troupe
