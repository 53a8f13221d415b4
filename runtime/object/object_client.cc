// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_client.h"

#include <utility>

#include "runtime/base/status.h"

namespace troupe {
namespace {

v1::ObjectRequest DropRequest(const std::string& id) {
  v1::ObjectRequest request;
  request.mutable_drop()->set_object_id(id);
  return request;
}

}  // namespace

ObjectClient::ObjectClient(std::string socket_path, ActorLife owner, ObjectLineTimeouts timeouts)
    : owner_(std::move(owner)),
      line_(
          std::move(socket_path), [this](ObjectLine& line) ABSL_NO_THREAD_SAFETY_ANALYSIS { return PutAgain(line); },
          timeouts) {}

v1::ObjectRequest ObjectClient::PutRequest(const std::string& id, bool keep) const {
  v1::ObjectRequest request;
  request.mutable_put()->set_object_id(id);
  *request.mutable_put()->mutable_owner() = owner_.ToProto();
  request.mutable_put()->set_keep(keep);
  return request;
}

absl::Status ObjectClient::Put(const std::string& id, std::shared_ptr<const MemoryFile> file, bool keep) {
  MutexLock lock(mutex_);
  const bool asked = !line_.silent();
  absl::Status put = line_.Ask(PutRequest(id, keep), {file->fd()}).status();
  if (asked && absl::IsUnavailable(put)) to_drop_.insert(id);  // It may have been taken, or may be yet.
  TROUPE_RETURN_IF_ERROR(put);
  held_[id] = {std::move(file), keep};
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const MemoryFile>> ObjectClient::Get(const std::string& id) {
  v1::ObjectRequest request;
  request.mutable_get()->set_object_id(id);
  ObjectAnswer answer;
  {
    MutexLock lock(mutex_);
    TROUPE_ASSIGN_OR_RETURN(answer, line_.Ask(request));
  }
  if (answer.fds.size() != 1) return absl::DataLossError("the broker sent object " + id + " without its descriptor");
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const MemoryFile> file, MemoryFile::Map(std::move(answer.fds[0])));
  if (file->size() != answer.reply.size_bytes()) {
    return absl::DataLossError("object " + id + " has another size than it says");
  }
  return file;
}

absl::Status ObjectClient::Drop(const std::string& id) {
  MutexLock lock(mutex_);
  held_.erase(id);
  absl::Status dropped = line_.Ask(DropRequest(id)).status();
  if (absl::IsUnavailable(dropped)) to_drop_.insert(id);
  return dropped;
}

absl::Status ObjectClient::PutAgain(ObjectLine& line) {
  for (; !to_drop_.empty(); to_drop_.erase(to_drop_.begin())) {
    absl::Status dropped = line.Exchange(DropRequest(*to_drop_.begin())).status();
    if (!line.open()) return dropped;
  }
  for (const auto& [id, held] : held_) {
    absl::Status put = line.Exchange(PutRequest(id, held.keep), {held.file->fd()}).status();
    // One that is refused (the budget, say) is as it was before; the line is good.
    if (!line.open()) return put;
  }
  return absl::OkStatus();
}

}  // namespace troupe
