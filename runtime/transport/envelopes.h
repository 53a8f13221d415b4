// SPDX-License-Identifier: Apache-2.0
// What a caller puts into envelopes, and what it reads from a reply. Private to this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/actor/call_error.h"
#include "runtime/base/ids.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

inline absl::StatusOr<std::string> ResultOf(v1::ActorReply&& reply) {
  if (reply.status().code() == 0) return std::move(*reply.mutable_result());
  return WithCallError(FromErrorStatus(reply.status()), reply.error());
}

inline v1::Envelope CallEnvelope(uint64_t id, const ActorLife& target, std::string method, std::string arguments,
                                 absl::Duration timeout) {
  v1::Envelope envelope;
  v1::ActorCall& call = *envelope.mutable_call();
  call.set_call_id(id);
  *call.mutable_target() = target.ToProto();
  call.set_method(std::move(method));
  call.set_arguments(std::move(arguments));
  call.set_deadline_ms(std::max<int64_t>(absl::ToInt64Milliseconds(timeout), 1));
  return envelope;
}

inline v1::StreamGrant GrantOf(uint64_t id, size_t items, size_t bytes) {
  v1::StreamGrant grant;
  grant.set_call_id(id);
  grant.set_items(items);
  grant.set_bytes(bytes);
  return grant;
}

inline v1::RetryKey KeyOf(uint64_t caller, uint64_t number) {
  v1::RetryKey key;
  key.set_caller(caller);
  key.set_number(number);
  return key;
}

}  // namespace troupe
