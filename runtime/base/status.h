// SPDX-License-Identifier: Apache-2.0
// Early returns for absl::Status and absl::StatusOr, and conversion from and to the ErrorStatus that crosses processes.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

// The same code with `context` and ": " before the message; OK stays OK. Payloads are kept.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// Whether such an error is the user's to mend (a bad file or value), so that the same would only be wrong again.
bool IsWrongInput(absl::StatusCode code);

// "NOT_FOUND: no job 'x'": for people. absl::Status::ToString without payload noise.
std::string StatusText(const absl::Status& status);

// A message as std::string (absl's own string_view is not std::string_view on every platform).
inline std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace troupe

#define TROUPE_CONCAT_INNER_(a, b) a##b
#define TROUPE_CONCAT_(a, b) TROUPE_CONCAT_INNER_(a, b)

// Returns from the function when `expression` is not OK.
#define TROUPE_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (absl::Status troupe_status_ = (expression); !troupe_status_.ok()) { \
      return troupe_status_;                                                \
    }                                                                       \
  } while (false)

// TROUPE_ASSIGN_OR_RETURN(Type name, ExpressionOfStatusOr());
#define TROUPE_ASSIGN_OR_RETURN(declaration, expression) \
  TROUPE_ASSIGN_OR_RETURN_IMPL_(TROUPE_CONCAT_(troupe_status_or_, __LINE__), declaration, expression)
#define TROUPE_ASSIGN_OR_RETURN_IMPL_(temporary, declaration, expression) \
  auto temporary = (expression);                                          \
  if (!temporary.ok()) return temporary.status();                         \
  declaration = std::move(temporary).value()
