// SPDX-License-Identifier: Apache-2.0
// CallError: which kind of failure a call's status is. It travels as a payload of the absl::Status.
//
// | kind             | code               | did it run?         | try again?                                          |
// |------------------|--------------------|---------------------|-----------------------------------------------------|
// | CALL_HANDLER     | the handler's own  | yes                 | as the handler says                                 |
// | CALL_DIED        | UNAVAILABLE        | may have            | with the successor's ref; `cause` says why it ended |
// | CALL_UNAVAILABLE | UNAVAILABLE        | may have            | only what may have two effects                      |
// | CALL_DEADLINE    | DEADLINE_EXCEEDED  | may have            |                                                     |
// | CALL_OVERLOADED  | RESOURCE_EXHAUSTED | no                  | later                                               |
// | CALL_STALE_EPOCH | ABORTED            | no                  | with the ref of `current_incarnation`               |
// | CALL_MALFORMED   | INVALID_ARGUMENT,  | no                  | never: unknown method, arguments of another type    |
// |                  | UNIMPLEMENTED      |                     |                                                     |
// | CALL_CANCELLED   | CANCELLED          | may have            | the caller asked for its end                        |
// | CALL_DEADLOCK    | FAILED_PRECONDITION| may                 | never: the caller's handler would wait for itself   |
// | CALL_TOO_LARGE   | RESOURCE_EXHAUSTED | if the result is it | never: what is over the limit stays so              |
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

// A status of that kind, with the code of the table above. Not for CALL_HANDLER.
absl::Status CallErrorStatus(v1::CallError::Kind kind, std::string_view message);
absl::Status DiedStatus(std::string_view message, const v1::ExitCause& cause);
absl::Status StaleEpochStatus(std::string_view message, uint64_t current_incarnation);

// The payload of a status; of one without: CALL_HANDLER (or CALL_OK of OkStatus).
v1::CallError CallErrorOf(const absl::Status& status);
v1::CallError::Kind CallErrorKindOf(const absl::Status& status);

// `status` with that payload, unless it is the handler's own; for transports.
absl::Status WithCallError(absl::Status status, const v1::CallError& error);
// `status` without payload: what a handler returns is its own, also when it passes on the error of a call it made.
absl::Status HandlerStatus(const absl::Status& status);

}  // namespace troupe
