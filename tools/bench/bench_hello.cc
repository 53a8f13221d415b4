// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench_hello.h"

#include <iostream>

#include "runtime/actor/actor_context.h"

namespace troupe::bench {

absl::Status BenchHello::OnStart(ActorContext& context) {
  std::cout << kHelloLine << std::endl;
  context.StopSelf("it has said hello");
  return absl::OkStatus();
}

TROUPE_ACTOR_REGISTER(BenchHello, TROUPE_INIT());

}  // namespace troupe::bench
