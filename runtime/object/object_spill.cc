// SPDX-License-Identifier: Apache-2.0
// How an ObjectStore makes room: it writes own objects that nobody reads into files, and brings them back when somebody
// asks for them.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/object/object_store.h"
#include "runtime/object/spill_file.h"

namespace troupe {
namespace {

// For the other processes' answers; one that is stopped does not agree.
constexpr absl::Duration kWithdrawTimeout = absl::Seconds(2);
// Somebody waits for it, and is told why it does not come.
constexpr absl::Duration kRestoreTimeout = absl::Seconds(30);

}  // namespace

absl::Status ObjectStore::MakeRoom(int64_t bytes) {
  {
    MutexLock lock(mutex_);
    if (spill_folder_.empty()) return absl::NotFoundError("there is nowhere to spill to");
  }
  for (Candidate& candidate : Candidates()) {
    absl::Status spilled = candidate.handle != nullptr ? SpillEntry(candidate.handle) : SpillLent(candidate.sequence);
    candidate.handle = nullptr;
    if (absl::IsFailedPrecondition(spilled)) continue;
    TROUPE_RETURN_IF_ERROR(spilled);
    bool enough;
    {
      MutexLock lock(mutex_);
      int64_t before = pool_.bytes();
      std::optional<ObjectBlock> block = pool_.Allocate(bytes);
      if (block.has_value()) pool_.Free(block->file, block->index);
      if (!block.has_value()) Trim(0);
      enough = block.has_value() || pool_.bytes() < before;
    }
    TellRemoved();
    if (enough) return absl::OkStatus();
  }
  return absl::NotFoundError("all objects of this process are being read");
}

std::vector<ObjectStore::Candidate> ObjectStore::Candidates() {
  std::vector<Candidate> candidates;
  MutexLock lock(mutex_);
  for (const auto& [sequence, known] : filed_) {
    const ObjectEntry& entry = *known.entry;
    if (!entry.block_.has_value() || entry.heap_ != nullptr || entry.pins_.load() != 0) continue;
    candidates.push_back({entry.used_, sequence, known.handle.lock()});
    if (candidates.back().handle == nullptr) candidates.pop_back();
  }
  for (const auto& [sequence, lent] : lent_) {
    if (lent.block.has_value() && !lent.busy) candidates.push_back({lent.used, sequence, nullptr});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  return candidates;
}

absl::Status ObjectStore::SpillEntry(const ObjectHandle& handle) {
  ObjectEntry& entry = *handle;
  ObjectBlock block;
  bool exported;
  TROUPE_ASSIGN_OR_RETURN(std::string path, SpillPath(entry.id_.sequence));
  {
    MutexLock lock(mutex_);
    int32_t unread = 0;
    if (entry.resolving_ || !entry.pins_.compare_exchange_strong(unread, -1)) {
      return absl::FailedPreconditionError("it is being read");
    }
    entry.resolving_ = true;
    block = *entry.block_;
    exported = entry.exported_ && connected_;
  }
  block.word->store(0, std::memory_order_seq_cst);
  absl::Status status = absl::FailedPreconditionError("others read it");
  bool away = !exported || Withdraw(entry.id_.sequence);
  if (away) status = WriteSpillFile(path, entry.id_.sequence, {block.data, static_cast<size_t>(entry.bytes_)});
  if (!status.ok()) block.word->store(entry.id_.sequence, std::memory_order_seq_cst);
  if (!status.ok() && exported) TellPlace(entry.id_, entry.place_, false);
  MutexLock lock(mutex_);
  if (status.ok()) {
    FreeBlock(block);
    entry.block_.reset();
    entry.data_ = nullptr;
    entry.spill_path_ = path;
  } else {
    entry.pins_.store(0, std::memory_order_release);
  }
  entry.resolving_ = false;
  changed_.NotifyAll();
  return status;
}

absl::Status ObjectStore::SpillLent(uint64_t sequence) {
  ObjectBlock block;
  ObjectPlace place;
  TROUPE_ASSIGN_OR_RETURN(std::string path, SpillPath(sequence));
  {
    MutexLock lock(mutex_);
    auto found = lent_.find(sequence);
    if (found == lent_.end() || found->second.busy || !found->second.block.has_value() ||
        entries_.contains({process_, sequence})) {
      return absl::FailedPreconditionError("it has gone, or has come back");
    }
    found->second.busy = true;
    block = *found->second.block;
    place = found->second.place;
  }
  absl::Status status = absl::FailedPreconditionError("others read it");
  bool away = Withdraw(sequence);
  if (away) status = WriteSpillFile(path, sequence, {block.data, static_cast<size_t>(place.bytes)});
  if (!status.ok()) TellPlace({process_, sequence}, place, true);
  MutexLock lock(mutex_);
  Lent& lent = lent_.at(sequence);
  lent.busy = false;
  if (status.ok()) {
    FreeBlock(block);
    lent.block.reset();
    lent.spill_path = path;
  }
  if (lent.freed) EndLent(sequence);
  return status;
}

bool ObjectStore::Withdraw(uint64_t sequence) {
  {
    MutexLock lock(mutex_);
    withdrawn_.erase(sequence);
  }
  v1::ObjectRequest request;
  *request.mutable_withdraw()->mutable_name() = ObjectId{process_, sequence}.ToProto();
  if (!Tell(request)) return false;
  MutexLock lock(mutex_);
  auto ended = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    auto lent = lent_.find(sequence);
    return withdrawn_.contains(sequence) || stopping_ || (lent != lent_.end() && lent->second.freed);
  };
  changed_.WaitUntil(lock, MonotonicNow() + kWithdrawTimeout, ended);
  auto found = withdrawn_.find(sequence);
  bool away = found != withdrawn_.end() && found->second;
  if (found != withdrawn_.end()) withdrawn_.erase(found);
  return away;
}

void ObjectStore::TellPlace(const ObjectId& id, const ObjectPlace& place, bool release) {
  v1::ObjectRequest request;
  *request.mutable_export_object()->mutable_name() = id.ToProto();
  *request.mutable_export_object()->mutable_place() = place.ToProto();
  MutexLock lock(line_mutex_);
  if (line_ == nullptr) return;
  (void)line_->Tell(request);
  if (!release) return;
  // An own lent object: this process has no handle to it, unless one came back meanwhile.
  {
    MutexLock state_lock(mutex_);
    if (entries_.contains(id)) return;
  }
  *request.mutable_release()->mutable_name() = id.ToProto();
  (void)line_->Tell(request);
}

absl::StatusOr<std::string> ObjectStore::SpillPath(uint64_t sequence) {
  std::string folder;
  {
    MutexLock lock(mutex_);
    folder = spill_folder_;
  }
  TROUPE_RETURN_IF_ERROR(MakeDirs(folder, 0700));
  return folder + "/" + std::to_string(sequence) + ".spill";
}

absl::StatusOr<ObjectBlock> ObjectStore::ReadBack(const std::string& path, uint64_t sequence, int64_t bytes) {
  TROUPE_ASSIGN_OR_RETURN(ObjectBlock block, NewBlock(bytes));
  absl::Status read = ReadSpillFile(path, sequence, {block.data, static_cast<size_t>(bytes)});
  if (read.ok()) return block;
  MutexLock lock(mutex_);
  FreeBlock(block);
  return read;
}

absl::Status ObjectStore::RestoreEntry(const ObjectHandle& handle) {
  ObjectEntry& entry = *handle;
  std::string path;
  {
    MutexLock lock(mutex_);
    path = entry.spill_path_;
  }
  if (path.empty()) return absl::FailedPreconditionError("the object was not sealed");
  TROUPE_ASSIGN_OR_RETURN(ObjectBlock block, ReadBack(path, entry.id_.sequence, entry.bytes_));
  block.word->store(entry.id_.sequence, std::memory_order_release);
  bool exported;
  {
    MutexLock lock(mutex_);
    entry.block_ = block;
    entry.place_ = {process_, block.file, block.index, block.offset, entry.bytes_};
    entry.data_ = block.data;
    entry.spill_path_.clear();
    exported = entry.exported_ && connected_;
    entry.pins_.store(0, std::memory_order_release);
  }
  if (exported) TellPlace(entry.id_, entry.place_, false);
  ::unlink(path.c_str());
  return absl::OkStatus();
}

absl::Status ObjectStore::RestoreLent(uint64_t sequence) {
  std::string path;
  ObjectPlace place;
  {
    MutexLock lock(mutex_);
    auto found = lent_.find(sequence);
    if (found == lent_.end() || found->second.busy || found->second.spill_path.empty()) return absl::OkStatus();
    found->second.busy = true;
    path = found->second.spill_path;
    place = found->second.place;
  }
  absl::StatusOr<ObjectBlock> block = ReadBack(path, sequence, place.bytes);
  if (block.ok()) {
    place = {process_, block->file, block->index, block->offset, place.bytes};
    TellPlace({process_, sequence}, place, true);
    ::unlink(path.c_str());
  }
  MutexLock lock(mutex_);
  Lent& lent = lent_.at(sequence);
  lent.busy = false;
  if (block.ok()) {
    lent.block = *block;
    lent.place = place;
    lent.used = ++tick_;
    lent.spill_path.clear();
  }
  if (lent.freed) EndLent(sequence);
  return block.status();
}

void ObjectStore::RunRestores() {
  while (true) {
    uint64_t sequence;
    ObjectHandle handle;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return stopping_ || !restores_.empty(); });
      if (stopping_) return;
      sequence = restores_.back();
      restores_.pop_back();
      auto found = filed_.find(sequence);
      if (found != filed_.end()) handle = found->second.handle.lock();
    }
    absl::Status restored =
        handle != nullptr ? Get(handle, MonotonicNow() + kRestoreTimeout).status() : RestoreLent(sequence);
    if (!restored.ok()) TellElsewhere({process_, sequence}, nullptr, restored);
  }
}

void ObjectStore::EndLent(uint64_t sequence) {
  Lent& lent = lent_.at(sequence);
  if (lent.block.has_value()) FreeBlock(*lent.block);
  if (!lent.spill_path.empty()) ::unlink(lent.spill_path.c_str());
  lent_.erase(sequence);
}

}  // namespace troupe
