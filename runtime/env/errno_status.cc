// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/errno_status.h"

#include <cerrno>
#include <string>
#include <system_error>

namespace troupe {
namespace {

absl::StatusCode CodeOf(int error_number) {
  switch (error_number) {
    case EADDRINUSE:
      return absl::StatusCode::kAlreadyExists;
    case EPIPE:
    case ECONNRESET:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::ErrnoToStatusCode(error_number);
  }
}

}  // namespace

absl::Status ErrnoStatus(int error_number, std::string_view what) {
  return absl::Status(CodeOf(error_number), std::string(what) + ": " + std::generic_category().message(error_number));
}

}  // namespace troupe
