// SPDX-License-Identifier: Apache-2.0
// ObjectBudget: how many bytes the memory files of a node may have, all kinds together.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace troupe {

struct ObjectBudget {
  int64_t bytes_max = 0;
  int64_t bytes = 0;

  // RESOURCE_EXHAUSTED: `more` does not fit; nothing is taken then.
  absl::Status Take(int64_t more) {
    if (more > bytes_max - bytes) {
      return absl::ResourceExhaustedError("the objects of this node hold " + std::to_string(bytes) + " of " +
                                          std::to_string(bytes_max) + " bytes; " + std::to_string(more) +
                                          " more do not fit");
    }
    bytes += more;
    return absl::OkStatus();
  }
  void Give(int64_t back) { bytes -= back; }
};

}  // namespace troupe
