// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/memory.h"
#include "runtime/env/random.h"
#include "runtime/object/memory_file.h"

namespace troupe {
namespace {

// On a line of the cache of its own, so that a tensor in it is aligned.
std::byte* SmallBlock(size_t bytes) {
  void* block = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
  if (block == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(block);
}

v1::ObjectRequest ReleaseRequest(const ObjectId& id) {
  v1::ObjectRequest request;
  *request.mutable_release()->mutable_name() = id.ToProto();
  return request;
}

}  // namespace

ObjectEntry::~ObjectEntry() {
  if (heap_ == nullptr || exported_) store_->Forget(*this);
}

ObjectHandle ObjectBuffer::Seal() && {
  entry_->store_->Seal(*entry_, 0);
  return std::move(entry_);
}

ObjectPin ObjectBuffer::SealAndPin() && {
  entry_->store_->Seal(*entry_, 1);
  return ObjectPin(std::move(entry_));
}

std::shared_ptr<ObjectStore> ObjectStore::Create(ObjectStoreOptions options) {
  if (options.bytes_max == 0) options.bytes_max = UsableMemoryBytes() / 2;
  return std::shared_ptr<ObjectStore>(new ObjectStore(std::move(options)));
}

ObjectStore::ObjectStore(ObjectStoreOptions options)
    : options_(std::move(options)),
      process_(RandomUint64() | 1),
      budget_{options_.bytes_max},
      spill_folder_(options_.spill_folder) {}

ObjectStore::~ObjectStore() { TROUPE_CHECK(!notices_.joinable(), "Shutdown before the last handle goes"); }

// ---- Making ----

absl::StatusOr<ObjectHandle> ObjectStore::Put(std::span<const std::byte> bytes) {
  TROUPE_ASSIGN_OR_RETURN(ObjectBuffer buffer, Allocate(static_cast<int64_t>(bytes.size())));
  if (!bytes.empty()) std::memcpy(buffer.bytes().data(), bytes.data(), bytes.size());
  return std::move(buffer).Seal();
}

ObjectHandle ObjectStore::NewEntry(int64_t bytes) {
  auto entry = std::make_shared<ObjectEntry>(shared_from_this());
  entry->id_ = {process_, sequence_.fetch_add(1, std::memory_order_relaxed) + 1};
  entry->bytes_ = bytes;
  return entry;
}

absl::StatusOr<ObjectBuffer> ObjectStore::Allocate(int64_t bytes) {
  if (bytes < 0) return absl::InvalidArgumentError("an object of " + std::to_string(bytes) + " bytes");
  ObjectBuffer buffer;
  if (bytes <= kInlineBytesMax) {
    buffer.entry_ = NewEntry(bytes);
    buffer.entry_->heap_.reset(SmallBlock(static_cast<size_t>(bytes)));
    buffer.bytes_ = {buffer.entry_->heap_.get(), static_cast<size_t>(bytes)};
    return buffer;
  }
  TROUPE_ASSIGN_OR_RETURN(ObjectBlock block, NewBlock(bytes));
  buffer.entry_ = NewEntry(bytes);
  buffer.entry_->block_ = block;
  buffer.entry_->place_ = {process_, block.file, block.index, block.offset, bytes};
  buffer.entry_->used_ = ++tick_;
  {
    MutexLock lock(mutex_);
    filed_[buffer.entry_->id_.sequence] = {buffer.entry_, buffer.entry_.get()};
  }
  buffer.bytes_ = {block.data, static_cast<size_t>(bytes)};
  return buffer;
}

void ObjectStore::Seal(ObjectEntry& entry, int32_t pins) {
  if (entry.heap_ != nullptr) {
    entry.data_ = entry.heap_.get();
  } else {
    entry.data_ = entry.block_->data;
    entry.block_->word->store(entry.id_.sequence, std::memory_order_release);
  }
  entry.pins_.store(pins, std::memory_order_release);
}

absl::StatusOr<ObjectBlock> ObjectStore::NewBlock(int64_t bytes) {
  while (true) {
    {
      MutexLock lock(mutex_);
      if (std::optional<ObjectBlock> block = pool_.Allocate(bytes)) return *block;
    }
    TROUPE_RETURN_IF_ERROR(AddFile(bytes));
  }
}

absl::Status ObjectStore::AddFile(int64_t bytes) {
  MutexLock add_lock(add_mutex_);
  while (true) {
    absl::Status added = TryAddFile(bytes);
    if (!absl::IsResourceExhausted(added)) return added;
    absl::Status room = MakeRoom(bytes);
    if (absl::IsNotFound(room)) return added;
    if (!room.ok()) return Annotate(room, MessageOf(added));
  }
}

absl::Status ObjectStore::TryAddFile(int64_t bytes) {
  bool online = Online();
  int64_t file_bytes = BlockPool::FileBytes(bytes);
  uint32_t number;
  {
    MutexLock lock(mutex_);
    if (std::optional<ObjectBlock> block = pool_.Allocate(bytes)) {  // Another thread was faster.
      pool_.Free(block->file, block->index);
      return absl::OkStatus();
    }
    if (budget_.bytes + file_bytes > budget_.bytes_max) Trim(0);
    TROUPE_RETURN_IF_ERROR(Annotate(budget_.Take(file_bytes), options_.name));
    number = ++files_made_;
  }
  TellRemoved();
  absl::StatusOr<PooledFile> file = PooledFile::Create("troupe-objects", file_bytes);
  absl::Status status = file.status();
  if (status.ok() && online) {
    v1::ObjectRequest request;
    request.mutable_add_file()->set_process(process_);
    request.mutable_add_file()->set_file(number);
    status = Ask(request, {file->fd()}).status();
    if (absl::IsResourceExhausted(status)) {
      {
        MutexLock lock(mutex_);
        Trim(0);
      }
      TellRemoved();
      status = Ask(request, {file->fd()}).status();
    }
    // An agent that is away is told when it is back.
    if (absl::IsUnavailable(status)) status = absl::OkStatus();
  }
  MutexLock lock(mutex_);
  if (status.ok()) {
    pool_.AddFile(number, *std::move(file), bytes);
  } else {
    budget_.Give(file_bytes);
  }
  return status;
}

// ---- Letting go ----

void ObjectStore::Forget(ObjectEntry& entry) {
  if (!connected_ || (!entry.exported_ && entry.origin_ == nullptr)) {
    MutexLock lock(mutex_);
    if (entry.exported_ || entry.origin_ != nullptr) EraseEntry(entry);
    filed_.erase(entry.origin_ == nullptr ? entry.id_.sequence : 0);
    if (entry.block_.has_value()) FreeBlock(*entry.block_);
    if (!entry.spill_path_.empty()) ::unlink(entry.spill_path_.c_str());
  } else {
    bool held = false;
    MutexLock line_lock(line_mutex_);
    {
      MutexLock lock(mutex_);
      held = !EraseEntry(entry);  // By a younger entry of the same object.
      // Before it is released: who sees the word has told the broker that it holds the object (Resolve).
      if (entry.block_.has_value()) entry.block_->word->store(0, std::memory_order_seq_cst);
      if (entry.block_.has_value() || !entry.spill_path_.empty()) {
        lent_[entry.id_.sequence] = {entry.block_, entry.place_, entry.used_, entry.spill_path_};
      }
      if (entry.origin_ == nullptr) filed_.erase(entry.id_.sequence);
    }
    if (!held && line_ != nullptr) (void)line_->Tell(ReleaseRequest(entry.id_));
  }
  TellRemoved();
}

bool ObjectStore::EraseEntry(const ObjectEntry& entry) {
  auto found = entries_.find(entry.id_);
  if (found == entries_.end()) return true;
  if (found->second.entry != &entry) return false;
  not_arrived_.erase(entry.id_);
  entries_.erase(found);
  return true;
}

void ObjectStore::FreeBlock(const ObjectBlock& block) {
  block.word->store(0, std::memory_order_release);
  pool_.Free(block.file, block.index);
  Trim(options_.idle_bytes_max);
}

void ObjectStore::Trim(int64_t keep_bytes) {
  int64_t before = pool_.bytes();
  for (uint32_t file : pool_.Trim(keep_bytes)) removed_.push_back(file);
  budget_.Give(before - pool_.bytes());
}

void ObjectStore::TellRemoved() {
  std::vector<uint32_t> removed;
  {
    MutexLock lock(mutex_);
    removed.swap(removed_);
  }
  v1::ObjectRequest request;
  for (uint32_t file : removed) {
    request.mutable_remove_file()->set_file(file);
    Tell(request);
  }
}

void ObjectStore::ExpireTransits() {
  std::vector<ObjectHandle> expired;  // Let go of outside the lock.
  MutexLock lock(mutex_);
  Monotonic now = MonotonicNow();
  while (!transits_.empty() && transits_.begin()->second.until <= now) {
    expired.push_back(std::move(transits_.begin()->second.handle));
    transits_.erase(transits_.begin());
  }
}

// ---- Travelling ----

ObjectWire ObjectStore::Describe(const ObjectHandle& handle, size_t message_bytes, bool held) {
  ObjectWire wire;
  wire.id = handle->id_;
  wire.bytes = handle->bytes_;
  if (handle->heap_ != nullptr) {
    if (message_bytes > kInlineMessageBytes) MoveToFile(handle);
    MutexLock lock(mutex_);
    if (!handle->block_.has_value()) {
      wire.is_inline = true;
      wire.content = {reinterpret_cast<const char*>(handle->heap_.get()), static_cast<size_t>(handle->bytes_)};
      return wire;
    }
  }
  bool online = Online();  // Before the node's name is read.
  bool tell = false, away = false;
  {
    MutexLock lock(mutex_);
    if (handle->origin_ != nullptr) {
      wire.owner = handle->origin_->owner;
      wire.node_id = handle->origin_->node_id;
      wire.endpoint = handle->origin_->endpoint;
    } else {
      // One that is being spilled has a place, or has none, soon.
      changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return !handle->resolving_; });
      away = !handle->spill_path_.empty();
      wire.owner = options_.name;
      wire.node_id = node_id_;
      wire.endpoint = endpoint_;
      tell = !handle->exported_;
      handle->exported_ = true;
      if (tell) entries_[handle->id_] = {handle, handle.get()};
    }
    wire.place = handle->place_;
    if (!held) {
      wire.sender = process_;
      wire.transit = ++transits_made_;
      transits_[wire.transit] = {handle, MonotonicNow() + kTransitMax};
    }
  }
  if (tell && online) {
    v1::ObjectRequest request;
    *request.mutable_export_object()->mutable_name() = wire.id.ToProto();
    *request.mutable_export_object()->mutable_place() = wire.place.ToProto();
    request.mutable_export_object()->set_away(away);
    Tell(request);
  }
  if (!held && !online) ExpireTransits();
  return wire;
}

void ObjectStore::MoveToFile(const ObjectHandle& handle) {
  {
    MutexLock lock(mutex_);
    if (handle->block_.has_value()) return;
  }
  absl::StatusOr<ObjectBlock> block = NewBlock(handle->bytes_);
  if (!block.ok()) return;
  std::memcpy(block->data, handle->heap_.get(), static_cast<size_t>(handle->bytes_));
  MutexLock lock(mutex_);
  if (handle->block_.has_value()) return FreeBlock(*block);
  block->word->store(handle->id_.sequence, std::memory_order_release);
  // Its own copy stays, for the pins.
  handle->place_ = {process_, block->file, block->index, block->offset, handle->bytes_};
  handle->block_ = *block;
}

ObjectHandle ObjectStore::Adopt(const ObjectWire& wire) {
  if (wire.is_inline) {
    // A copy, and so an object of this process.
    ObjectHandle handle = NewEntry(static_cast<int64_t>(wire.content.size()));
    handle->heap_.reset(SmallBlock(wire.content.size()));
    std::memcpy(handle->heap_.get(), wire.content.data(), wire.content.size());
    Seal(*handle, 0);
    return handle;
  }
  ObjectHandle arrived;  // Let go of at the end.
  v1::ObjectRequest request;
  if (!Online()) return AdoptShared(wire, request, arrived);
  ObjectHandle handle;
  bool elsewhere = false;
  {
    MutexLock line_lock(line_mutex_);
    handle = AdoptShared(wire, request, arrived);
    elsewhere = request.hold().has_home();
    if (request.has_hold()) {
      bool told = line_ != nullptr && line_->Tell(request).ok();
      MutexLock lock(mutex_);
      handle->exported_ = told;
    }
    if (wire.sender != 0 && wire.sender != process_) {
      request.Clear();
      request.mutable_claim()->set_process(wire.sender);
      request.mutable_claim()->set_transit(wire.transit);
      if (line_ != nullptr) (void)line_->Tell(request);
    }
  }
  // Whoever sent the ref keeps the object until this returns.
  if (elsewhere) (void)AskForPlace(handle, MonotonicNow() + kAdoptMax, true);
  return handle;
}

ObjectHandle ObjectStore::AdoptShared(const ObjectWire& wire, v1::ObjectRequest& hold, ObjectHandle& arrived) {
  MutexLock lock(mutex_);
  if (wire.sender == process_) {
    auto transit = transits_.find(wire.transit);
    if (transit != transits_.end()) {
      arrived = std::move(transit->second.handle);
      transits_.erase(transit);
    }
  }
  Known& known = entries_[wire.id];
  if (ObjectHandle handle = known.handle.lock(); handle != nullptr) return handle;
  auto handle = std::make_shared<ObjectEntry>(shared_from_this());
  handle->id_ = wire.id;
  handle->bytes_ = wire.bytes;
  handle->place_ = wire.place;
  handle->origin_ = std::make_shared<const ObjectEntry::Origin>(
      ObjectEntry::Origin{std::string(wire.owner), std::string(wire.node_id), std::string(wire.endpoint)});
  known = {handle, handle.get()};
  *hold.mutable_hold()->mutable_name() = wire.id.ToProto();
  if (!wire.node_id.empty() && wire.node_id != node_id_) *hold.mutable_hold()->mutable_home() = HomeOf(*handle);
  return handle;
}

ObjectStore::Figures ObjectStore::figures() const {
  MutexLock lock(mutex_);
  Figures figures{pool_.bytes(), pool_.idle_bytes(), lent_.size(), transits_.size(), views_.size()};
  for (const auto& [sequence, known] : filed_) figures.spilled += known.entry->spill_path_.empty() ? 0 : 1;
  for (const auto& [sequence, lent] : lent_) figures.spilled += lent.spill_path.empty() ? 0 : 1;
  return figures;
}

}  // namespace troupe
