// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace troupe::internal {

void CheckFailed(const char* file, int line, const char* text, std::string_view message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %.*s\n", file, line, text, static_cast<int>(message.size()),
               message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace troupe::internal
