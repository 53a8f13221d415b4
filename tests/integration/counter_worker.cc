// SPDX-License-Identifier: Apache-2.0
// A user's worker program that hosts Counter.
#include "tests/integration/counter.h"

namespace troupe::tests {
TROUPE_ACTOR_REGISTER(Counter, TROUPE_INIT(int64_t));
}  // namespace troupe::tests

int main(int argc, char** argv) { return troupe::RunWorker(argc, argv); }
