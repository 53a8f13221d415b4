// SPDX-License-Identifier: Apache-2.0
// HoldTable: which process of a node holds which counted objects, and the memory files that these lie in. The deciding
// part of the broker for them: no sockets, no threads.
//
// OBJ-1: a block is given back to its owner only when no process holds its object. OBJ-2: all that a process holds ends
// with it; a file outlives its owner while an object in it is held by others. OBJ-3: a process is told of a block once.
// OBJ-4: what is told of an object of another node (its name) and what is told of its copy here are one object.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/env/unique_fd.h"
#include "runtime/object/object_budget.h"
#include "runtime/object/object_id.h"

namespace troupe {

class HoldTable {
 public:
  static constexpr size_t kFilesMax = 8192;         // Each holds a descriptor.
  static constexpr size_t kObjectsMax = 4'000'000;  // About 200 bytes each.
  static constexpr size_t kEndedMax = 1024;         // Processes whose end is remembered.

  // The budget outlives the table.
  explicit HoldTable(ObjectBudget& budget) : budget_(budget) {}

  // Again, after its line broke: it says anew what it holds. `name` and `life` (which may be empty) are for errors.
  void Open(ObjectProcess process, std::string name, ActorLife life);
  // That process has ended: so do its holds, and its files when nobody holds anything in them.
  void Close(ObjectProcess process);
  // Why a life has ended, for errors about the objects of its processes.
  void OwnerEnded(const ActorLife& life, const std::string& cause);

  // A file that is known already is not counted again. Errors as of AddObjectFile (object.proto).
  absl::Status AddFile(ObjectProcess from, ObjectProcess owner, uint32_t file, UniqueFd fd, int64_t bytes);
  void RemoveFile(ObjectProcess owner, uint32_t file);
  struct File {
    UniqueFd fd;
    int64_t bytes = 0;
    size_t objects = 0;
    bool orphan = false;  // Its owner has ended.
    ActorPath worker;     // On whose account it is; without a job: nobody's.
  };
  // NOT_FOUND. Valid until the next change.
  absl::StatusOr<const File*> FindFile(ObjectProcess owner, uint32_t file) const;

  // `from` has the object, and holds it: its owner, or after a restart of the agent one that held it before.
  // INVALID_ARGUMENT: no such file or place in it.
  absl::Status Export(ObjectProcess from, const ObjectId& id, const ObjectPlace& place);
  // Harmless when it holds it already. Errors as of HoldObject.
  absl::StatusOr<ObjectPlace> Hold(ObjectProcess holder, const ObjectId& id);
  // After a restart of the agent: it holds the object, which somebody else will export.
  void Promise(ObjectProcess holder, const ObjectId& id);
  void ForgetPromises() { promised_.clear(); }
  // Harmless when it does not hold it.
  void Release(ObjectProcess holder, const ObjectId& id);
  bool Knows(const ObjectId& id) const { return objects_.contains(Here(id)); }

  // The object lies on another node, which is to be told of it. True: it was not known here before. Errors as of Hold;
  // RESOURCE_EXHAUSTED: too many objects are known.
  absl::StatusOr<bool> HoldElsewhere(ObjectProcess holder, const ObjectId& id);
  bool IsElsewhere(const ObjectId& id) const;
  // It has been fetched: `copy`, which is exported. Its holders hold that now; both names are its. NOT_FOUND: nobody
  // holds it any more, or it is here already, or there is no such copy.
  absl::Status Arrived(const ObjectId& id, const ObjectId& copy);
  // The name of the object that it is on this node; the name of an object that its holders know.
  const ObjectId& Here(const ObjectId& id) const;
  const ObjectId& Outside(const ObjectId& id) const;
  // Objects of other nodes that nobody holds any more, since the last call.
  std::vector<ObjectId> TakeForgotten() { return std::exchange(forgotten_, {}); }

  // Its owner would take the memory of the object away; returns whom to ask. NOT_FOUND: nobody knows it, or it goes on.
  absl::StatusOr<std::vector<ObjectProcess>> Withdraw(ObjectProcess owner, const ObjectId& id);
  void Agree(ObjectProcess holder, const ObjectId& id, bool agrees);
  // It is away: its owner has it elsewhere, and is to bring it back by another Export.
  absl::Status ExportAway(ObjectProcess owner, const ObjectId& id);
  bool IsAway(const ObjectId& id) const;
  // Withdrawals that all have agreed to, with the same care as for TakeUnheld and Sweep: after a whole pass, those that
  // nobody has asked for meanwhile are away.
  std::vector<std::pair<ObjectId, uint64_t>> TakeAgreed() { return std::exchange(agreed_, {}); }
  void FinishWithdrawals(const std::vector<std::pair<ObjectId, uint64_t>>& candidates);
  // Which have ended since the last call, and whether the object is away.
  std::vector<std::pair<ObjectId, bool>> TakeWithdrawn() { return std::exchange(withdrawn_, {}); }

  // Objects that nobody holds, which may still be asked for by messages on their way: when all of these have been
  // handled, Sweep(Unheld()) forgets those of them that nobody holds then, and says whose blocks are free.
  std::vector<ObjectId> TakeUnheld() { return std::exchange(unheld_, {}); }
  std::map<ObjectProcess, std::vector<uint64_t>> Sweep(const std::vector<ObjectId>& candidates);

  // Files that went since the last call.
  std::vector<std::pair<ObjectProcess, uint32_t>> TakeDropped() { return std::exchange(dropped_, {}); }

  size_t objects() const { return objects_.size(); }
  size_t files() const { return files_.size(); }

 private:
  struct Object {
    ObjectPlace place;
    std::set<ObjectProcess> holders;
    enum class Where { kInFile, kAsked, kAway, kElsewhere } where = Where::kInFile;
    ObjectId elsewhere;             // Its name on another node, if it is of one.
    std::set<ObjectProcess> asked;  // Of these an answer is awaited.
    uint64_t withdrawal = 0;        // The last one's number.
    bool in_file() const { return where == Where::kInFile || where == Where::kAsked; }
  };
  struct Process {
    std::string name;
    ActorLife life;
    std::string cause;  // Of its life's end, when that is known.
  };
  using FileKey = std::pair<ObjectProcess, uint32_t>;

  void DropFile(std::map<FileKey, File>::iterator file);
  absl::Status NotHeld(const ObjectId& id) const;
  // `process` has not to be waited for any more.
  void NotAsked(ObjectProcess process, const ObjectId& id, Object& object);
  void EndWithdrawal(const ObjectId& id, Object& object);
  void LeaveFile(const Object& object);
  void Erase(absl::flat_hash_map<ObjectId, Object>::iterator object);
  void KeepPromises(const ObjectId& id, Object& object);

  ObjectBudget& budget_;
  std::map<ObjectProcess, Process> processes_;
  std::map<ObjectProcess, Process> ended_;
  std::deque<ObjectProcess> ended_order_;
  std::map<FileKey, File> files_;
  absl::flat_hash_map<ObjectId, Object> objects_;
  absl::flat_hash_map<ObjectId, ObjectId> copies_;  // By the name on another node.
  std::vector<ObjectId> forgotten_;
  std::map<ObjectId, std::set<ObjectProcess>> promised_;
  std::vector<ObjectId> unheld_;
  std::vector<FileKey> dropped_;
  std::vector<std::pair<ObjectId, uint64_t>> agreed_;  // And which withdrawal of it.
  uint64_t withdrawals_ = 0;
  std::vector<std::pair<ObjectId, bool>> withdrawn_;
};

}  // namespace troupe
