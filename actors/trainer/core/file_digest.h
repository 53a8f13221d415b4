// SPDX-License-Identifier: Apache-2.0
// Size and checksum of a file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace troupe {

struct FileDigest {
  int64_t bytes = 0;
  std::string sha256;  // hexadecimal, lower case
};

absl::StatusOr<FileDigest> DigestFile(const std::string& path);

}  // namespace troupe
