// SPDX-License-Identifier: Apache-2.0
// TextLines: the lines of a file, plain or compressed (.gz by zlib, .zst by Zstandard; told apart by content, not by
// name).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace troupe {

// Longest line that is taken: a million tokens of text, and small beside what a row costs where
// it is kept, sent and scored.
inline constexpr size_t kLineBytesMax = 4 << 20;

// Calls `visit` with each line, without its line end, and its number from 1. An error of `visit` ends the reading.
// NOT_FOUND: no such file; INVALID_ARGUMENT: a folder, device or pipe, or a line that is too long (named by number);
// DATA_LOSS: the compressed data is damaged or cut off. Each names the file.
absl::Status ReadTextLines(const std::string& path,
                           const std::function<absl::Status(std::string_view line, int64_t number)>& visit);

}  // namespace troupe
