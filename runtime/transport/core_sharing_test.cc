// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/core_sharing.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

// So many waits, which take that long apart and together; returns how many were together.
int Wait(CoreSharing& sharing, int waits, int apart_us, int together_us) {
  int together = 0;
  for (int i = 0; i < waits; ++i) {
    together += sharing.together();
    sharing.Waited(absl::Microseconds(sharing.together() ? together_us : apart_us));
  }
  return together;
}

TEST_CASE("CoreSharing: threads share a processor where that is quicker, after a trial of both", "[core_sharing]") {
  CoreSharing sharing;
  CHECK(Wait(sharing, CoreSharing::kTrialWaits, 24, 12) == 0);
  CHECK(Wait(sharing, CoreSharing::kTrialWaits, 24, 12) == CoreSharing::kTrialWaits);
  CHECK(Wait(sharing, CoreSharing::kHoldsMin, 24, 12) == CoreSharing::kHoldsMin);
  CHECK_FALSE(sharing.together());  // Watched anew.
  CHECK(Wait(sharing, 100'000, 24, 12) > 95'000);
}

TEST_CASE("CoreSharing: where it is not quicker it is tried ever less often", "[core_sharing]") {
  CoreSharing sharing;
  int early = Wait(sharing, 100'000, 10, 10);
  CHECK(early >= CoreSharing::kTrialWaits);
  CHECK(early <= 5 * CoreSharing::kTrialWaits);
  Wait(sharing, 2'000'000, 10, 10);
  CHECK(Wait(sharing, 1'000'000, 10, 10) <= 2 * CoreSharing::kTrialWaits);
  // And when things have changed it is found in the end.
  Wait(sharing, CoreSharing::kHoldsMax, 24, 12);
  CHECK(Wait(sharing, 10'000, 24, 12) > 9'000);
}

TEST_CASE("CoreSharing: it ends when it has become slower than apart", "[core_sharing]") {
  CoreSharing sharing;
  Wait(sharing, 2 * CoreSharing::kTrialWaits, 24, 12);
  REQUIRE(sharing.together());
  CHECK(Wait(sharing, 10 * CoreSharing::kTrialWaits, 24, 100) <= 2 * CoreSharing::kTrialWaits);
}

TEST_CASE("CoreSharing: a long wait, or one for something else, ends it", "[core_sharing]") {
  CoreSharing sharing;
  Wait(sharing, 3 * CoreSharing::kTrialWaits, 24, 12);
  REQUIRE(sharing.together());
  sharing.Waited(CoreSharing::kShort + absl::Microseconds(1));
  CHECK_FALSE(sharing.together());
  Wait(sharing, 3 * CoreSharing::kTrialWaits, 24, 12);
  REQUIRE(sharing.together());
  sharing.Interrupt();
  CHECK_FALSE(sharing.together());
  // Whose waits are never all short is not tried at all.
  for (int i = 0; i < 100'000; ++i) {
    REQUIRE_FALSE(sharing.together());
    sharing.Waited(absl::Microseconds(i % CoreSharing::kTrialWaits == 0 ? 300 : 20));
  }
}

}  // namespace
}  // namespace troupe
