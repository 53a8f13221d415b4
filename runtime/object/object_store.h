// SPDX-License-Identifier: Apache-2.0
// ObjectStore: the counted objects that a process has made or has got refs to. ObjectHandle: one of them, held.
// ObjectPin: its bytes, which stay where they are meanwhile. Untyped; actors use ObjectRef<T> (actor/object_ref.h).
//
// Small objects lie in this process' memory and travel within messages. Larger ones lie in blocks of pooled memory
// files (block_pool.h), which every process of the node maps. An object lives while any process of the node has a
// handle or a pin; the node's broker counts that by process (hold_table.h), so that the holds of a killed process end
// with it. Without a broker (no UseBroker) objects are of this process only. See DESIGN.md. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/object/block_pool.h"
#include "runtime/object/object_budget.h"
#include "runtime/object/object_id.h"
#include "runtime/object/object_line.h"

namespace troupe {

class ObjectStore;

// One object in this process. Destroyed with its last handle and pin, which lets go of it.
class ObjectEntry {
 public:
  explicit ObjectEntry(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}
  ~ObjectEntry();
  ObjectEntry(const ObjectEntry&) = delete;
  ObjectEntry& operator=(const ObjectEntry&) = delete;

  const ObjectId& id() const { return id_; }
  int64_t bytes() const { return bytes_; }
  ObjectStore& store() const { return *store_; }

 private:
  friend class ObjectStore;
  friend class ObjectPin;
  friend class ObjectBuffer;
  // Where it comes from, for who asks for it on another node, and for errors.
  struct Origin {
    std::string owner, node_id, endpoint;
  };

  bool TryPin() {
    int32_t pins = pins_.load(std::memory_order_relaxed);
    while (pins >= 0) {
      if (pins_.compare_exchange_weak(pins, pins + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }
  void Unpin() { pins_.fetch_sub(1, std::memory_order_release); }

  const std::shared_ptr<ObjectStore> store_;
  ObjectId id_;
  int64_t bytes_ = 0;
  std::atomic<int32_t> pins_{-1};    // -1: `data_` is not known.
  std::atomic<uint64_t> used_{0};    // The store's tick when it was got last.
  const std::byte* data_ = nullptr;  // Changes only while pins_ is -1.
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte[], Free> heap_;
  // Below under the store's mutex.
  std::optional<ObjectBlock> block_;  // Of an own one that is not small.
  bool exported_ = false;             // The broker counts it. Others than own ones: this process told that it holds it.
  bool resolving_ = false;            // By one thread; or being spilled.
  std::string spill_path_;            // Of an own one that is on the disk, and in no block.
  ObjectPlace place_;                 // Of an object in a file.
  std::shared_ptr<const PooledView> view_;
  std::shared_ptr<const Origin> origin_;  // Null: own.
};

using ObjectHandle = std::shared_ptr<ObjectEntry>;

class ObjectPin {
 public:
  ObjectPin() = default;
  ObjectPin(const ObjectPin& other) : entry_(other.entry_) {
    if (entry_ != nullptr) entry_->pins_.fetch_add(1, std::memory_order_relaxed);
  }
  ObjectPin(ObjectPin&& other) noexcept = default;
  ObjectPin& operator=(ObjectPin other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~ObjectPin() {
    if (entry_ != nullptr) entry_->Unpin();
  }

  // 64-byte aligned at least.
  std::span<const std::byte> bytes() const {
    return entry_ == nullptr ? std::span<const std::byte>()
                             : std::span(entry_->data_, static_cast<size_t>(entry_->bytes_));
  }
  const ObjectHandle& handle() const { return entry_; }

 private:
  friend class ObjectStore;
  friend class ObjectBuffer;
  explicit ObjectPin(ObjectHandle entry) : entry_(std::move(entry)) {}  // Pinned already.
  ObjectHandle entry_;
};

// An object that is being written; nobody else sees it before Seal, which uses the buffer up. One that is dropped gives
// its memory back. Of one thread at a time.
class ObjectBuffer {
 public:
  // 64-byte aligned at least; what is in it at first means nothing.
  std::span<std::byte> bytes() const { return bytes_; }
  ObjectHandle Seal() &&;
  ObjectPin SealAndPin() &&;

 private:
  friend class ObjectStore;
  ObjectHandle entry_;
  std::span<std::byte> bytes_;
};

// A ref as it travels. The views are into what was described or decoded.
struct ObjectWire {
  ObjectId id;
  int64_t bytes = 0;
  bool is_inline = false;
  std::string_view content;  // Of one that travels within the message.
  ObjectPlace place;
  std::string_view owner, node_id, endpoint;
  ObjectProcess sender = 0;  // Who holds it for the ref on its way, under the number `transit`; 0: nobody has to.
  uint64_t transit = 0;
};

struct ObjectStoreOptions {
  std::string name;       // Of this process, for errors.
  int64_t bytes_max = 0;  // Of files of this process, before the node's own budget; 0: half of the machine's memory.
  int64_t idle_bytes_max = int64_t{512} << 20;  // Files without an object that are kept for the next ones.
  std::string spill_folder;                     // Without a broker, which says where; "": nothing is spilled.
  // Of the node's exchange alone (object_exchange.h): what the broker wants of other nodes' objects. Called by a thread
  // of the store.
  std::function<void(const v1::ElsewhereNotice&)> elsewhere;
};

class ObjectStore : public std::enable_shared_from_this<ObjectStore> {
 public:
  // Objects up to this size lie in the process' own memory and travel within messages; in a message that has more than
  // kInlineMessageBytes already they are put into shared memory first.
  static constexpr int64_t kInlineBytesMax = 8 << 10;
  static constexpr size_t kInlineMessageBytes = 256 << 10;
  // A ref in a one-way message, a result or an item of a stream keeps its object alive that long on its way.
  static constexpr absl::Duration kTransitMax = absl::Minutes(2);

  static std::shared_ptr<ObjectStore> Create(ObjectStoreOptions options);
  ~ObjectStore();

  // Shares objects with the other processes of the node, through the broker at that socket, from the first time that
  // one of them is needed there. `life`: whose end is told of in errors about this process' objects; may be empty.
  // Once.
  void UseBroker(const std::string& socket_path, const ActorLife& life);
  // That time is now. UNAVAILABLE: it does not answer.
  absl::Status Join();
  // Objects of others cannot be got any more, and others cannot get those of this process. Before the last handle goes.
  void Shutdown();

  // Objects of this process that nobody reads now are spilled to the disk where memory is short, those first that were
  // not got for the longest time. RESOURCE_EXHAUSTED: over the budget of this process or of the node, or the machine
  // has no such memory, and there is nothing to spill; or the disk is full, and nothing is lost. INVALID_ARGUMENT: a
  // negative size.
  absl::StatusOr<ObjectBuffer> Allocate(int64_t bytes);
  // A copy of them. Errors as of Allocate.
  absl::StatusOr<ObjectHandle> Put(std::span<const std::byte> bytes);

  // Without a copy; from the disk if it was spilled, through the node's agent if it lies on another node: then all gets
  // on this node share one copy, and what arrived before a deadline is kept. NOT_FOUND: the object is lost or gone; the
  // message says why. DEADLINE_EXCEEDED: it did not arrive from where it is. FAILED_PRECONDITION: this process has no
  // node agent to ask, or that fetches nothing. UNAVAILABLE: the agent, or the other node, is away.
  // RESOURCE_EXHAUSTED: this node has no room for it.
  absl::StatusOr<ObjectPin> Get(const ObjectHandle& handle, Monotonic deadline);

  // A ref that is about to travel in a message that has `message_bytes` already; valid while the handle is. `held`: the
  // sender keeps the handle until the ref has arrived. Otherwise the store does, for at most kTransitMax.
  ObjectWire Describe(const ObjectHandle& handle, size_t message_bytes, bool held);
  // A ref that came. What is wrong with it shows in Get. Of an object of another node: waits until that node knows that
  // it is wanted here, but for at most kAdoptMax (then it may be gone when it is got).
  ObjectHandle Adopt(const ObjectWire& wire);
  static constexpr absl::Duration kAdoptMax = absl::Seconds(2);

  // Of the exchange: an object of another node is here, as that one of this store's (which it has described), or it
  // cannot be fetched, or (with neither) its home knows that it is held here. Of any: an own object cannot be brought
  // back.
  void TellElsewhere(const ObjectId& id, const ObjectId* copy, const absl::Status& error);

  struct Figures {
    int64_t file_bytes = 0;  // Of this process' own files.
    int64_t idle_bytes = 0;
    size_t lent = 0;  // Own objects without a handle here, which others hold.
    size_t in_transit = 0;
    size_t views = 0;    // Files of others that are mapped.
    size_t spilled = 0;  // Own objects on the disk.
  };
  Figures figures() const;
  // Of the whole node. Errors as of Get.
  absl::StatusOr<v1::NodeObjectFigures> NodeFigures();
  void TellFigures(const v1::NodeObjectFigures& figures);  // Of the exchange.
  // For people: whose it is, and where its bytes are now.
  std::string Explain(const ObjectHandle& handle) const;

 private:
  friend class ObjectEntry;
  friend class ObjectBuffer;
  struct Transit {
    ObjectHandle handle;
    Monotonic until;
  };
  struct Lent {
    std::optional<ObjectBlock> block;
    ObjectPlace place;
    uint64_t used = 0;
    std::string spill_path;  // Instead of a block.
    bool busy = false;       // It is being spilled or brought back.
    bool freed = false;      // Meanwhile.
  };
  // What may be spilled: of an own object with a handle here, or a lent one.
  struct Candidate {
    uint64_t used = 0;
    uint64_t sequence = 0;
    ObjectHandle handle;
  };
  struct Known {
    std::weak_ptr<ObjectEntry> handle;
    ObjectEntry* entry = nullptr;  // There until it has been forgotten, also while its last handle goes.
  };
  using FileKey = std::pair<ObjectProcess, uint32_t>;

  explicit ObjectStore(ObjectStoreOptions options);
  ObjectHandle NewEntry(int64_t bytes);
  absl::StatusOr<ObjectBlock> NewBlock(int64_t bytes);
  absl::Status AddFile(int64_t bytes);
  absl::Status TryAddFile(int64_t bytes);
  void Seal(ObjectEntry& entry, int32_t pins);
  // The entry's last handle has gone.
  void Forget(ObjectEntry& entry);
  void FreeBlock(const ObjectBlock& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: there is a younger entry of the same object.
  bool EraseEntry(const ObjectEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Trim(int64_t keep_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the broker which files went.
  void TellRemoved();
  // Under the line's lock, so that holds and releases go out in the order in which the entries came and went.
  ObjectHandle AdoptShared(const ObjectWire& wire, v1::ObjectRequest& hold, ObjectHandle& arrived);
  // A small object that is to be shared after all. Left as it is when there is no memory for that.
  void MoveToFile(const ObjectHandle& handle);
  void ExpireTransits();

  absl::Status Resolve(const ObjectHandle& handle, Monotonic deadline);
  // Of one of another node with `stay`: without fetching it, when its home knows of the hold.
  absl::StatusOr<ObjectPlace> AskForPlace(const ObjectHandle& handle, Monotonic deadline, bool stay);
  v1::ObjectHome HomeOf(const ObjectEntry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `check`: only if the file's header says that the object is there.
  absl::Status Look(const ObjectHandle& handle, const ObjectPlace& place, bool check);
  absl::StatusOr<std::shared_ptr<const PooledView>> ViewOf(const FileKey& key);

  // object_spill.cc.
  // Spills until there is a block of that size or an idle file less. NOT_FOUND: nothing can be spilled.
  absl::Status MakeRoom(int64_t bytes);
  std::vector<Candidate> Candidates();
  // FAILED_PRECONDITION: it is read by somebody.
  absl::Status SpillEntry(const ObjectHandle& handle);
  absl::Status SpillLent(uint64_t sequence);
  // Whether nobody else reads it, and the memory may be taken away.
  bool Withdraw(uint64_t sequence);
  void TellPlace(const ObjectId& id, const ObjectPlace& place, bool release);
  absl::StatusOr<std::string> SpillPath(uint64_t sequence);
  absl::Status RestoreEntry(const ObjectHandle& handle);
  absl::StatusOr<ObjectBlock> ReadBack(const std::string& path, uint64_t sequence, int64_t bytes);
  absl::Status RestoreLent(uint64_t sequence);
  void RunRestores();
  void EndLent(uint64_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // object_session.cc: the line to the broker.
  // Whether there is a broker, and a session with it, which is begun now if need be.
  bool Online();
  absl::Status Connect();
  absl::StatusOr<ObjectAnswer> Ask(const v1::ObjectRequest& request, const std::vector<int>& fds = {});
  bool Tell(const v1::ObjectRequest& request);
  // All that the broker has to know of this process, to one that may know nothing.
  absl::Status Resync(ObjectLine& line);
  absl::StatusOr<UnixSocket> ListenForNotices();
  void RunNotices(UnixSocket socket);
  void Take(const v1::ObjectNotice& notice);
  void TakeRevoke(const ObjectId& id);
  v1::ObjectRequest OpenRequest(bool notices) const;

  const ObjectStoreOptions options_;
  const ObjectProcess process_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<uint64_t> tick_{0};  // Objects in files so far.
  std::atomic<bool> connected_{false};

  Mutex add_mutex_;  // One file is added at a time. Taken before the others but connect_mutex_.
  mutable Mutex mutex_;
  ConditionVariable changed_;
  BlockPool pool_ ABSL_GUARDED_BY(mutex_);
  ObjectBudget budget_ ABSL_GUARDED_BY(mutex_);
  uint32_t files_made_ ABSL_GUARDED_BY(mutex_) = 0;
  // By id: what may be found by a ref that comes.
  absl::flat_hash_map<ObjectId, Known> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Known> filed_ ABSL_GUARDED_BY(mutex_);  // Own ones in blocks, or spilled, by sequence number.
  std::string spill_folder_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, bool> withdrawn_ ABSL_GUARDED_BY(mutex_);  // How withdrawals have ended.
  std::vector<uint64_t> restores_ ABSL_GUARDED_BY(mutex_);      // Somebody asks for these.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<uint64_t, Lent> lent_ ABSL_GUARDED_BY(mutex_);  // By sequence number.
  std::vector<uint32_t> removed_ ABSL_GUARDED_BY(mutex_);             // Files that the broker was not told of.
  std::map<uint64_t, Transit> transits_ ABSL_GUARDED_BY(mutex_);
  uint64_t transits_made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<FileKey, std::shared_ptr<const PooledView>> views_ ABSL_GUARDED_BY(mutex_);
  uint64_t arrivals_ ABSL_GUARDED_BY(mutex_) = 0;                         // Notices that something pending has come.
  std::map<ObjectId, absl::Status> not_arrived_ ABSL_GUARDED_BY(mutex_);  // Of those that somebody waits for.
  std::string node_id_ ABSL_GUARDED_BY(mutex_);
  std::string endpoint_ ABSL_GUARDED_BY(mutex_);

  std::atomic<bool> has_broker_{false};  // The two below are set.
  std::string socket_path_;
  ActorLife life_;
  Mutex connect_mutex_;  // Taken before the others.
  Mutex line_mutex_;     // Taken before mutex_.
  std::unique_ptr<ObjectLine> line_ ABSL_GUARDED_BY(line_mutex_);
  UnixSocket wake_;            // Read by the thread.
  UnixSocket wake_other_end_;  // Shut down by Shutdown.
  std::thread notices_;
  std::thread restorer_;  // From the first restore on; made by the notices' thread.
};

}  // namespace troupe
