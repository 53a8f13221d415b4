// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli): checksums of records on disk and of weight buckets. Uses the processor's instruction where
// there is one.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

// Of `bytes`; `crc` is that of what stands before them, so that parts can be given one after the other.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

}  // namespace troupe
