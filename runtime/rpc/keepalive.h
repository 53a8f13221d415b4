// SPDX-License-Identifier: Apache-2.0
// Keepalive of every connection, both sides: a half-open one is found within a minute, also when nothing is sent.
#pragma once

namespace troupe {

inline constexpr int kKeepaliveTimeMs = 20'000;
// Long enough for a process that is starved or stopped for a while.
inline constexpr int kKeepaliveTimeoutMs = 20'000;

}  // namespace troupe
