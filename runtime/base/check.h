// SPDX-License-Identifier: Apache-2.0
// TROUPE_CHECK: a broken invariant ends the process, in release builds too, with the place and the reason on stderr.
// Only for what the program itself must guarantee; what can go wrong outside it is an absl::Status.
#pragma once

#include <string_view>

namespace troupe::internal {

// Prints "file:line: check failed: text: message" and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* text, std::string_view message);

}  // namespace troupe::internal

// `id_or_message` names the invariant ("DEV-1: a device has at most one live owner").
#define TROUPE_CHECK(condition, id_or_message)                                        \
  do {                                                                                \
    if (!(condition)) [[unlikely]] {                                                  \
      ::troupe::internal::CheckFailed(__FILE__, __LINE__, #condition, id_or_message); \
    }                                                                                 \
  } while (false)
