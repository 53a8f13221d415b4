// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/exception_status.h"

#include <exception>
#include <string>

namespace troupe::internal {

absl::Status ExceptionStatus(std::string_view where) {
  try {
    throw;
  } catch (const std::exception& error) {
    return absl::InternalError(std::string(where) + " threw: " + error.what());
  } catch (...) {
    return absl::InternalError(std::string(where) + " threw something that is no std::exception");
  }
}

}  // namespace troupe::internal
