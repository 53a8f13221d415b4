// SPDX-License-Identifier: Apache-2.0
#include "runtime/rpc/callback_threads.h"

#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <memory>

#include "absl/synchronization/mutex.h"

namespace troupe {
namespace {

struct FirstCall {
  grpc::ClientContext context;
  grpc::Slice nothing;
  grpc::ByteBuffer request{&nothing, 1};
  grpc::ByteBuffer response;
};

}  // namespace

void KeepCallbackThreads() {
  // Debian's gRPC is built without NDEBUG: each of its locks would be entered into a graph that looks for deadlocks.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // A channel takes its hold on the threads with its first call, here one that fails by itself, and is never destroyed.
  // `used`: the leak checker is to find it, although nothing reads it.
  [[gnu::used]] static const std::shared_ptr<grpc::Channel>* const channel = [] {
    grpc_init();  // Never ended: the threads live as long as the process.
    auto* kept = new std::shared_ptr<grpc::Channel>(grpc::CreateChannelInternal(
        "", grpc_lame_client_channel_create("none", GRPC_STATUS_UNAVAILABLE, "it only keeps threads"), {}));
    auto* call = new FirstCall;
    grpc::GenericStub(*kept).UnaryCall(&call->context, "/none", grpc::StubOptions(), &call->request, &call->response,
                                       [call](const grpc::Status&) { delete call; });
    return kept;
  }();
}

}  // namespace troupe
