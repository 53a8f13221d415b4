// SPDX-License-Identifier: Apache-2.0
//
// The version of a parameter set: which attempt of the job, which optimizer step.

#pragma once

#include <compare>
#include <cstdint>

namespace troupe {

// Ordered by attempt first: after a resume the attempt grows, so (a + 1, k) is newer than (a, k + 7).
struct ModelVersion {
  int64_t attempt = 0;
  int64_t step = 0;

  friend auto operator<=>(const ModelVersion&, const ModelVersion&) = default;
};

}  // namespace troupe
