// SPDX-License-Identifier: Apache-2.0
#include "runtime/rpc/status.h"

#include <string>

#include "runtime/base/status.h"

namespace troupe {
namespace {

// Messages travel in HTTP/2 headers, whose sum is bounded (8 KiB by default).
constexpr size_t kMessageBytesMax = 4096;

absl::Status MakeStatus(int code, const std::string& message) {
  if (code == 0) return absl::OkStatus();
  bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown, message);
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) { return MakeStatus(status.error_code(), status.error_message()); }

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), MessageOf(status).substr(0, kMessageBytesMax));
}

// gRPC has it in its text alone: that of strerror, behind "failed to connect to all addresses".
bool NobodyListens(const absl::Status& status) {
  std::string text = MessageOf(status);
  return absl::IsUnavailable(status) && (text.find("Connection refused") != std::string::npos ||
                                         text.find("No such file or directory") != std::string::npos);
}

absl::Status FromErrorStatus(const v1::ErrorStatus& status) { return MakeStatus(status.code(), status.message()); }

v1::ErrorStatus ToErrorStatus(const absl::Status& status) {
  v1::ErrorStatus error;
  error.set_code(status.raw_code());
  error.set_message(MessageOf(status));
  return error;
}

}  // namespace troupe
