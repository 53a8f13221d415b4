// SPDX-License-Identifier: Apache-2.0
// What the commands that list things share: a table or the protocol's own JSON, once or at each change.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "tools/cli/head_client.h"
#include "tools/cli/options.h"
#include "tools/cli/signals.h"

namespace troupe::cli {

// The protocol's own JSON, or the same as YAML.
std::string Machine(const google::protobuf::Message& message, const std::string& output);

// Whether JSON or YAML was asked for.
inline bool WantsMachine(const Options& options) { return options.output == "json" || options.output == "yaml"; }

// Prints `text()` once, or with --watch again at each change until a signal. Returns the exit status.
int Show(const Options& options, SignalWaiter& signals, const std::function<absl::StatusOr<std::string>()>& text);

// One call whose answer is the list.
template <typename Request, typename Response>
int List(const Options& options, SignalWaiter& signals, const Request& request,
         grpc::Status (v1::Head::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
         const std::function<std::string(const Response&)>& table) {
  absl::StatusOr<HeadClient> head = HeadClient::Make(options.connection);
  if (!head.ok()) return Report(head.status());
  return Show(options, signals, [&]() -> absl::StatusOr<std::string> {
    TROUPE_ASSIGN_OR_RETURN(Response response, (head->Call<Request, Response>(method, request)));
    return WantsMachine(options) ? Machine(response, options.output) : table(response);
  });
}

}  // namespace troupe::cli
