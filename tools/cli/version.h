// SPDX-License-Identifier: Apache-2.0
// The version that programs print and nodes report.
#pragma once

namespace troupe::cli {
inline constexpr char kVersion[] = "0.1.0";
}  // namespace troupe::cli
