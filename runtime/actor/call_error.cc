// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/call_error.h"

#include <string>

#include "absl/strings/cord.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr char kPayloadUrl[] = "troupe.v1.CallError";

absl::StatusCode CodeOf(v1::CallError::Kind kind) {
  switch (kind) {
    case v1::CallError::CALL_DIED:
    case v1::CallError::CALL_UNAVAILABLE:
      return absl::StatusCode::kUnavailable;
    case v1::CallError::CALL_DEADLINE:
      return absl::StatusCode::kDeadlineExceeded;
    case v1::CallError::CALL_OVERLOADED:
    case v1::CallError::CALL_TOO_LARGE:
      return absl::StatusCode::kResourceExhausted;
    case v1::CallError::CALL_STALE_EPOCH:
      return absl::StatusCode::kAborted;
    case v1::CallError::CALL_MALFORMED:
      return absl::StatusCode::kInvalidArgument;
    case v1::CallError::CALL_CANCELLED:
      return absl::StatusCode::kCancelled;
    case v1::CallError::CALL_DEADLOCK:
      return absl::StatusCode::kFailedPrecondition;
    default:
      TROUPE_CHECK(false, "only failures of the call itself have a code of their own");
  }
}

absl::Status Make(const v1::CallError& error, std::string_view message) {
  return WithCallError(absl::Status(CodeOf(error.kind()), std::string(message)), error);
}

}  // namespace

absl::Status CallErrorStatus(v1::CallError::Kind kind, std::string_view message) {
  v1::CallError error;
  error.set_kind(kind);
  return Make(error, message);
}

absl::Status DiedStatus(std::string_view message, const v1::ExitCause& cause) {
  v1::CallError error;
  error.set_kind(v1::CallError::CALL_DIED);
  *error.mutable_cause() = cause;
  return Make(error, message);
}

absl::Status StaleEpochStatus(std::string_view message, uint64_t current_incarnation) {
  v1::CallError error;
  error.set_kind(v1::CallError::CALL_STALE_EPOCH);
  error.set_current_incarnation(current_incarnation);
  return Make(error, message);
}

v1::CallError CallErrorOf(const absl::Status& status) {
  v1::CallError error;
  if (status.ok()) return error;
  auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value() || !error.ParseFromString(std::string(*payload)) || error.kind() == v1::CallError::CALL_OK) {
    error.set_kind(v1::CallError::CALL_HANDLER);
  }
  return error;
}

v1::CallError::Kind CallErrorKindOf(const absl::Status& status) { return CallErrorOf(status).kind(); }

absl::Status WithCallError(absl::Status status, const v1::CallError& error) {
  bool of_the_call = error.kind() != v1::CallError::CALL_OK && error.kind() != v1::CallError::CALL_HANDLER;
  if (!status.ok() && of_the_call) status.SetPayload(kPayloadUrl, absl::Cord(error.SerializeAsString()));
  return status;
}

absl::Status HandlerStatus(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), MessageOf(status));
}

}  // namespace troupe
