// SPDX-License-Identifier: Apache-2.0
// An object's bytes in a file of the node's folder, while memory is short. A header with the object's number, size and
// checksum, then the bytes. The file is of this run only: it is not synced.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace troupe {

// RESOURCE_EXHAUSTED: the disk is full. Nothing is left at `path` after any error.
absl::Status WriteSpillFile(const std::string& path, uint64_t sequence, std::span<const std::byte> bytes);

// Into `bytes`, whose size is that of the object. DATA_LOSS: it is another object's, or damaged. NOT_FOUND.
absl::Status ReadSpillFile(const std::string& path, uint64_t sequence, std::span<std::byte> bytes);

}  // namespace troupe
