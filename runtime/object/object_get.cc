// SPDX-License-Identifier: Apache-2.0
// How an ObjectStore finds the bytes of an object: here, in a file of another process, or on the disk.
#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/object/object_store.h"

namespace troupe {
namespace {

// Between two questions to an agent that was just restarted.
constexpr absl::Duration kAskAgain = absl::Milliseconds(50);
constexpr absl::Duration kPendingAskAgain = absl::Seconds(1);
// Files of others that are kept mapped, though nothing in them is held, for the next object in them.
constexpr size_t kIdleViewsMax = 64;

}  // namespace

absl::StatusOr<ObjectPin> ObjectStore::Get(const ObjectHandle& handle, Monotonic deadline) {
  if (handle == nullptr) return absl::InvalidArgumentError("the ref names no object");
  while (!handle->TryPin()) {
    {
      MutexLock lock(mutex_);
      bool ended = changed_.WaitUntil(lock, deadline, [&] { return !handle->resolving_; });
      if (!ended) return absl::DeadlineExceededError(handle->id_.ToString() + " is still being brought here");
      if (handle->pins_.load(std::memory_order_relaxed) >= 0) continue;
      handle->resolving_ = true;
    }
    absl::Status resolved = Resolve(handle, deadline);
    MutexLock lock(mutex_);
    handle->resolving_ = false;
    changed_.NotifyAll();
    if (!resolved.ok()) return resolved;
  }
  handle->used_.store(tick_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return ObjectPin(handle);
}

absl::Status ObjectStore::Resolve(const ObjectHandle& handle, Monotonic deadline) {
  ObjectPlace place;
  bool own = false, told = false;
  {
    MutexLock lock(mutex_);
    own = handle->origin_ == nullptr;
    place = handle->place_;
    told = !own && handle->exported_ && handle->origin_->node_id == node_id_;
  }
  if (own) return RestoreEntry(handle);
  // It was told that this process holds it, before it is seen that its owner does: nobody takes the block away.
  if (told && Look(handle, place, true).ok()) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(place, AskForPlace(handle, deadline, false));
  return Look(handle, place, false);
}

absl::StatusOr<ObjectPlace> ObjectStore::AskForPlace(const ObjectHandle& handle, Monotonic deadline, bool stay) {
  if (!Online()) {
    if (handle->id_.process == process_) {
      return absl::NotFoundError(handle->id_.ToString() +
                                 " is gone: everybody let it go; keep a ref as long as it is wanted");
    }
    return absl::FailedPreconditionError(handle->id_.ToString() + " of " + handle->origin_->owner +
                                         " is in another process, and this one has no node agent to get it through");
  }
  v1::ObjectRequest request;
  *request.mutable_hold()->mutable_name() = handle->id_.ToProto();
  request.mutable_hold()->set_answer(true);
  request.mutable_hold()->set_stay(stay);
  uint64_t arrivals;
  {
    MutexLock lock(mutex_);
    const std::string& node = handle->origin_->node_id;
    if (!node.empty() && node != node_id_) *request.mutable_hold()->mutable_home() = HomeOf(*handle);
    arrivals = arrivals_;
    if (!stay) not_arrived_.erase(handle->id_);
  }
  while (true) {
    absl::StatusOr<ObjectAnswer> answer = Ask(request);
    if (answer.ok() && !answer->reply.pending()) {
      MutexLock lock(mutex_);
      handle->exported_ = true;
      return ObjectPlace::FromProto(answer->reply.place());
    }
    if (!answer.ok() && !absl::IsUnavailable(answer.status())) return answer.status();
    // A notice says when; an agent that was restarted says nothing.
    Monotonic until = std::min(deadline, MonotonicNow() + (answer.ok() ? kPendingAskAgain : kAskAgain));
    MutexLock lock(mutex_);
    changed_.WaitUntil(lock, until, [&] { return arrivals_ != arrivals || stopping_; });
    arrivals = arrivals_;
    if (auto failed = not_arrived_.find(handle->id_); failed != not_arrived_.end() && !stay) return failed->second;
    if (MonotonicNow() < deadline && !stopping_) continue;
    if (!answer.ok()) return answer.status();
    return absl::DeadlineExceededError(handle->id_.ToString() + " of " + handle->origin_->owner +
                                       " did not arrive in time");
  }
}

absl::Status ObjectStore::Look(const ObjectHandle& handle, const ObjectPlace& place, bool check) {
  std::shared_ptr<const PooledView> view;
  const std::byte* file = nullptr;
  int64_t file_bytes = 0;
  if (place.process == process_) {
    MutexLock lock(mutex_);
    const PooledFile* own = pool_.Find(place.file);
    if (own != nullptr) file = own->data();
    if (own != nullptr) file_bytes = own->size();
  } else {
    TROUPE_ASSIGN_OR_RETURN(view, ViewOf({place.process, place.file}));
    file = view->data();
    file_bytes = view->size();
  }
  if (place.offset < 0 || handle->bytes_ < 0 || place.bytes != handle->bytes_ || place.offset > file_bytes ||
      place.bytes > file_bytes - place.offset) {
    return absl::DataLossError(handle->id_.ToString() + " does not lie inside its file");
  }
  const std::atomic<uint64_t>* word = ObjectWord(file, file_bytes, place.block);
  if (check && (word == nullptr || word->load(std::memory_order_seq_cst) != handle->id_.sequence)) {
    return absl::NotFoundError("its owner has no ref to it");
  }
  MutexLock lock(mutex_);
  handle->place_ = place;
  handle->view_ = std::move(view);
  handle->data_ = file + place.offset;
  handle->pins_.store(0, std::memory_order_release);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const PooledView>> ObjectStore::ViewOf(const FileKey& key) {
  {
    MutexLock lock(mutex_);
    auto found = views_.find(key);
    if (found != views_.end()) return found->second;
  }
  v1::ObjectRequest request;
  request.mutable_get_file()->set_process(key.first);
  request.mutable_get_file()->set_file(key.second);
  TROUPE_ASSIGN_OR_RETURN(ObjectAnswer answer, Ask(request));
  if (answer.fds.size() != 1) return absl::DataLossError("the broker sent a file of objects without its descriptor");
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const PooledView> view, PooledView::Map(std::move(answer.fds[0])));
  MutexLock lock(mutex_);
  for (auto it = views_.begin(); it != views_.end() && views_.size() >= kIdleViewsMax;) {
    it = it->second.use_count() == 1 ? views_.erase(it) : std::next(it);
  }
  views_[key] = view;
  return view;
}

std::string ObjectStore::Explain(const ObjectHandle& handle) const {
  if (handle == nullptr) return "names no object";
  std::string text = handle->id_.ToString() + ", " + std::to_string(handle->bytes_) + " bytes, ";
  MutexLock lock(mutex_);
  if (handle->origin_ == nullptr) {
    if (handle->heap_ != nullptr) return text + "in this process' own memory: it travels within messages";
    if (!handle->spill_path_.empty()) return text + "of this process, on the disk: " + handle->spill_path_;
    return text + "of this process, in memory that the processes of its node share";
  }
  const ObjectEntry::Origin& origin = *handle->origin_;
  bool far = !origin.node_id.empty() && origin.node_id != node_id_;
  text += "of " + origin.owner + (far ? " on node " + origin.node_id + " at " + origin.endpoint : "");
  if (handle->data_ == nullptr) return text + (far ? ", not fetched for this process yet" : ", not read here yet");
  return text + (far ? ", read from this node's copy" : ", read where its owner put it");
}

absl::StatusOr<v1::NodeObjectFigures> ObjectStore::NodeFigures() {
  if (!Online()) return absl::FailedPreconditionError("this process has no node agent to ask");
  v1::ObjectRequest request;
  request.mutable_get_figures();
  TROUPE_ASSIGN_OR_RETURN(ObjectAnswer answer, Ask(request));
  return answer.reply.figures();
}

}  // namespace troupe
