// SPDX-License-Identifier: Apache-2.0
// TextLines: the lines of a file, plain or compressed (.gz by zlib, .zst by Zstandard; told apart by content, not by
// name).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace troupe {

// Longest line that is taken: beyond it the file is no JSON lines file.
inline constexpr size_t kLineBytesMax = 64 << 20;

// Calls `visit` with each line, without its line end, and its number from 1. An error of `visit` ends the reading.
// NOT_FOUND: no such file; DATA_LOSS: the compressed data is damaged or cut off. Each names the file.
absl::Status ReadTextLines(const std::string& path,
                           const std::function<absl::Status(std::string_view line, int64_t number)>& visit);

}  // namespace troupe
