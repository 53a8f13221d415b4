// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_client.h"

#include <utility>

#include "runtime/base/status.h"

namespace troupe {

ObjectClient::ObjectClient(std::string socket_path, ActorLife owner)
    : owner_(std::move(owner)), line_(std::move(socket_path), [this](ObjectLine& line) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return PutAgain(line);
      }) {}

v1::ObjectRequest ObjectClient::PutRequest(const std::string& id, bool keep) const {
  v1::ObjectRequest request;
  request.mutable_put()->set_object_id(id);
  *request.mutable_put()->mutable_owner() = owner_.ToProto();
  request.mutable_put()->set_keep(keep);
  return request;
}

absl::Status ObjectClient::Put(const std::string& id, std::shared_ptr<const MemoryFile> file, bool keep) {
  MutexLock lock(mutex_);
  TROUPE_RETURN_IF_ERROR(line_.Ask(PutRequest(id, keep), {file->fd()}).status());
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
  v1::ObjectRequest request;
  request.mutable_drop()->set_object_id(id);
  MutexLock lock(mutex_);
  held_.erase(id);
  return line_.Ask(request).status();
}

absl::Status ObjectClient::PutAgain(ObjectLine& line) {
  for (const auto& [id, held] : held_) {
    absl::Status put = line.Exchange(PutRequest(id, held.keep), {held.file->fd()}).status();
    // One that is refused (the budget, say) is as it was before; the line is good.
    if (!line.open()) return put;
  }
  return absl::OkStatus();
}

}  // namespace troupe
