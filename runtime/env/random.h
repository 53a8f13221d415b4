// SPDX-License-Identifier: Apache-2.0
// Entropy of the operating system: for ids and secrets. What must be repeatable takes a seed instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe {

// `count` bytes of getrandom(2), fit for secrets. Never fails (the process ends if the kernel has none to give).
std::string RandomBytes(size_t count);

// 2 * `bytes` lower-case hex digits.
std::string RandomHex(size_t bytes);

uint64_t RandomUint64();

}  // namespace troupe
