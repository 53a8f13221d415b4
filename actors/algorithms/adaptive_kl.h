// SPDX-License-Identifier: Apache-2.0
// The coefficient of the KL in the reward, which may follow a target.
#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe {

// kl_coef *= 1 + clip(kl / target - 1, +-0.2) n / horizon. Source: Ziegler et al. 2019. n counts rows.
struct AdaptiveKlController {
  double kl_coef = 0.2;
  double target_kl = 6;    // > 0
  double horizon = 10000;  // > 0; rows

  void Update(double current_kl, int64_t n) {
    const double error = std::clamp(current_kl / target_kl - 1, -0.2, 0.2);
    kl_coef *= 1 + error * static_cast<double>(n) / horizon;
  }
};

}  // namespace troupe
