// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/status.h"

namespace troupe {

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), std::string(context) + ": " + MessageOf(status));
  status.ForEachPayload([&](auto url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

std::string StatusText(const absl::Status& status) {
  if (status.ok()) return "OK";
  return absl::StatusCodeToString(status.code()) + ": " + MessageOf(status);
}

bool IsWrongInput(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace troupe
