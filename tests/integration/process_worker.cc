// SPDX-License-Identifier: Apache-2.0
// A program that embeds actors: started as a worker, it becomes one inside Runtime::Local.
#include "tests/integration/process_actor.h"

namespace troupe_test {
TROUPE_ACTOR_REGISTER(Worker, TROUPE_INIT(int64_t));
}

int main() {
  (void)troupe::Runtime::Local();
  return 1;
}
