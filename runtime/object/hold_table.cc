// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/hold_table.h"

#include <utility>

#include "runtime/base/status.h"

namespace troupe {

void HoldTable::Open(ObjectProcess process, std::string name, ActorLife life) {
  ended_.erase(process);
  for (auto& [key, file] : files_) {
    if (key.first == process) file.orphan = false;
  }
  processes_[process] = {std::move(name), std::move(life), ""};
}

void HoldTable::Close(ObjectProcess process) {
  auto known = processes_.find(process);
  if (known == processes_.end()) return;
  for (auto it = objects_.begin(); it != objects_.end();) {
    auto found = it++;
    auto& [id, object] = *found;
    if (object.holders.erase(process) > 0 && object.holders.empty()) unheld_.push_back(id);
    NotAsked(process, id, object);
    // What only its owner could bring back is lost.
    if (id.process == process && object.where == Object::Where::kAway) Erase(found);
  }
  for (auto it = files_.lower_bound({process, 0}); it != files_.end() && it->first.first == process;) {
    auto file = it++;
    file->second.orphan = true;
    if (file->second.objects == 0) DropFile(file);
  }
  if (ended_.emplace(process, known->second).second) ended_order_.push_back(process);
  processes_.erase(known);
  for (; ended_order_.size() > kEndedMax; ended_order_.pop_front()) ended_.erase(ended_order_.front());
}

void HoldTable::OwnerEnded(const ActorLife& life, const std::string& cause) {
  // Whichever is seen first, the exit or the end of the connection.
  for (std::map<ObjectProcess, Process>* known : {&processes_, &ended_}) {
    for (auto& [number, process] : *known) {
      if (process.life == life) process.cause = cause;
    }
  }
}

absl::Status HoldTable::AddFile(ObjectProcess from, ObjectProcess owner, uint32_t number, UniqueFd fd, int64_t bytes) {
  if (processes_.count(from) == 0) return absl::FailedPreconditionError("a file of a process without a session");
  FileKey key{owner, number};
  if (auto known = files_.find(key); known != files_.end()) {
    if (known->second.bytes == bytes) return absl::OkStatus();
    return absl::InvalidArgumentError("another file of that number is known, with another size");
  }
  if (files_.size() >= kFilesMax) {
    return absl::ResourceExhaustedError("this node holds " + std::to_string(files_.size()) + " files already");
  }
  auto of = processes_.find(owner);
  File file{std::move(fd), bytes, 0, of == processes_.end(),
            of == processes_.end() ? ActorPath() : of->second.life.path};
  TROUPE_RETURN_IF_ERROR(budget_.Take(bytes, file.worker));
  files_.emplace(key, std::move(file));
  return absl::OkStatus();
}

void HoldTable::RemoveFile(ObjectProcess owner, uint32_t number) {
  auto found = files_.find({owner, number});
  if (found == files_.end()) return;
  found->second.orphan = true;
  if (found->second.objects == 0) DropFile(found);
}

void HoldTable::DropFile(std::map<FileKey, File>::iterator file) {
  budget_.Give(file->second.bytes, file->second.worker);
  dropped_.push_back(file->first);
  files_.erase(file);
}

absl::StatusOr<const HoldTable::File*> HoldTable::FindFile(ObjectProcess owner, uint32_t number) const {
  auto found = files_.find({owner, number});
  if (found == files_.end()) return absl::NotFoundError("this node has no such file of objects (any more)");
  return &found->second;
}

absl::Status HoldTable::Export(ObjectProcess from, const ObjectId& id, const ObjectPlace& place) {
  auto file = files_.find({place.process, place.file});
  if (processes_.count(from) == 0 || file == files_.end()) {
    return absl::InvalidArgumentError(id.ToString() + " is of a process without a session, or lies in no file");
  }
  bool inside = place.offset >= 0 && place.bytes >= 0 && place.offset <= file->second.bytes &&
                place.bytes <= file->second.bytes - place.offset;
  if (!inside) return absl::InvalidArgumentError(id.ToString() + " does not lie inside its file");
  if (objects_.size() >= kObjectsMax) return absl::ResourceExhaustedError("this node knows too many objects");
  auto [at, is_new] = objects_.emplace(Here(id), Object{place, {}});
  if (is_new || !at->second.in_file()) ++file->second.objects;
  at->second.where = Object::Where::kInFile;
  at->second.asked.clear();
  at->second.place = place;
  at->second.holders.insert(from);
  KeepPromises(id, at->second);
  return absl::OkStatus();
}

void HoldTable::KeepPromises(const ObjectId& id, Object& object) {
  if (auto promised = promised_.find(id); promised != promised_.end()) {
    for (ObjectProcess holder : promised->second) {
      if (processes_.count(holder) > 0) object.holders.insert(holder);
    }
    promised_.erase(promised);
  }
}

void HoldTable::Promise(ObjectProcess holder, const ObjectId& id) {
  if (promised_.size() < kObjectsMax) promised_[id].insert(holder);
}

absl::StatusOr<ObjectPlace> HoldTable::Hold(ObjectProcess holder, const ObjectId& id) {
  if (processes_.count(holder) == 0) return absl::FailedPreconditionError("a hold of a process without a session");
  auto found = objects_.find(Here(id));
  if (found == objects_.end()) return NotHeld(id);
  found->second.holders.insert(holder);
  EndWithdrawal(found->first, found->second);
  return found->second.place;
}

void HoldTable::Release(ObjectProcess holder, const ObjectId& id) {
  auto found = objects_.find(Here(id));
  if (found == objects_.end()) {
    if (auto promised = promised_.find(id); promised != promised_.end()) promised->second.erase(holder);
    return;
  }
  NotAsked(holder, found->first, found->second);
  if (found->second.holders.erase(holder) > 0 && found->second.holders.empty()) unheld_.push_back(found->first);
}

absl::StatusOr<bool> HoldTable::HoldElsewhere(ObjectProcess holder, const ObjectId& id) {
  if (processes_.count(holder) == 0) return absl::FailedPreconditionError("a hold of a process without a session");
  auto found = objects_.find(Here(id));
  bool is_new = found == objects_.end();
  if (is_new) {
    if (objects_.size() >= kObjectsMax) return absl::ResourceExhaustedError("this node knows too many objects");
    found = objects_.emplace(id, Object{}).first;
    found->second.where = Object::Where::kElsewhere;
    found->second.elsewhere = id;
  }
  found->second.holders.insert(holder);
  return is_new;
}

bool HoldTable::IsElsewhere(const ObjectId& id) const {
  auto found = objects_.find(Here(id));
  return found != objects_.end() && found->second.where == Object::Where::kElsewhere;
}

absl::Status HoldTable::Arrived(const ObjectId& id, const ObjectId& copy) {
  auto wanted = objects_.find(id);
  auto here = objects_.find(copy);
  if (wanted == objects_.end() || wanted->second.where != Object::Where::kElsewhere || here == objects_.end() ||
      here->second.elsewhere.process != 0) {
    return absl::NotFoundError("nobody waits for " + id.ToString());
  }
  here->second.holders.insert(wanted->second.holders.begin(), wanted->second.holders.end());
  here->second.elsewhere = id;
  EndWithdrawal(copy, here->second);
  objects_.erase(wanted);
  copies_[id] = copy;
  return absl::OkStatus();
}

const ObjectId& HoldTable::Here(const ObjectId& id) const {
  auto copy = copies_.find(id);
  return copy == copies_.end() ? id : copy->second;
}

const ObjectId& HoldTable::Outside(const ObjectId& id) const {
  auto found = objects_.find(id);
  return found == objects_.end() || found->second.elsewhere.process == 0 ? id : found->second.elsewhere;
}

void HoldTable::Erase(absl::flat_hash_map<ObjectId, Object>::iterator object) {
  if (const ObjectId& elsewhere = object->second.elsewhere; elsewhere.process != 0) {
    forgotten_.push_back(elsewhere);
    copies_.erase(elsewhere);
  }
  objects_.erase(object);
}

std::map<ObjectProcess, std::vector<uint64_t>> HoldTable::Sweep(const std::vector<ObjectId>& candidates) {
  std::map<ObjectProcess, std::vector<uint64_t>> freed;
  for (const ObjectId& id : candidates) {
    auto found = objects_.find(id);
    if (found == objects_.end() || !found->second.holders.empty()) continue;
    LeaveFile(found->second);
    if (processes_.count(id.process) > 0) freed[id.process].push_back(id.sequence);
    Erase(found);
  }
  return freed;
}

void HoldTable::LeaveFile(const Object& object) {
  if (!object.in_file()) return;
  auto file = files_.find({object.place.process, object.place.file});
  if (--file->second.objects == 0 && file->second.orphan) DropFile(file);
}

absl::StatusOr<std::vector<ObjectProcess>> HoldTable::Withdraw(ObjectProcess owner, const ObjectId& id) {
  auto found = objects_.find(id);
  if (found == objects_.end() || id.process != owner || found->second.where != Object::Where::kInFile) {
    return absl::NotFoundError(id.ToString() + " cannot be withdrawn");
  }
  Object& object = found->second;
  object.where = Object::Where::kAsked;
  object.withdrawal = ++withdrawals_;
  object.asked = object.holders;
  object.asked.erase(owner);
  if (object.asked.empty()) agreed_.emplace_back(id, object.withdrawal);
  return std::vector<ObjectProcess>(object.asked.begin(), object.asked.end());
}

void HoldTable::Agree(ObjectProcess holder, const ObjectId& id, bool agrees) {
  auto found = objects_.find(Here(id));
  if (found == objects_.end()) return;
  if (agrees) {
    NotAsked(holder, found->first, found->second);
  } else {
    EndWithdrawal(found->first, found->second);
  }
}

absl::Status HoldTable::ExportAway(ObjectProcess owner, const ObjectId& id) {
  if (processes_.count(owner) == 0 || id.process != owner) {
    return absl::InvalidArgumentError(id.ToString() + " is not that process'");
  }
  if (objects_.size() >= kObjectsMax) return absl::ResourceExhaustedError("this node knows too many objects");
  Object& object = objects_[id];
  object.where = Object::Where::kAway;
  object.holders.insert(owner);
  KeepPromises(id, object);
  return absl::OkStatus();
}

bool HoldTable::IsAway(const ObjectId& id) const {
  auto found = objects_.find(Here(id));
  return found != objects_.end() && found->second.where == Object::Where::kAway;
}

void HoldTable::FinishWithdrawals(const std::vector<std::pair<ObjectId, uint64_t>>& candidates) {
  for (const auto& [id, withdrawal] : candidates) {
    auto found = objects_.find(id);
    if (found == objects_.end() || found->second.withdrawal != withdrawal) continue;
    if (found->second.where != Object::Where::kAsked || !found->second.asked.empty()) continue;
    LeaveFile(found->second);
    found->second.where = Object::Where::kAway;
    withdrawn_.emplace_back(id, true);
  }
}

void HoldTable::NotAsked(ObjectProcess process, const ObjectId& id, Object& object) {
  if (object.asked.erase(process) > 0 && object.asked.empty()) agreed_.emplace_back(id, object.withdrawal);
}

void HoldTable::EndWithdrawal(const ObjectId& id, Object& object) {
  if (object.where != Object::Where::kAsked) return;
  object.where = Object::Where::kInFile;
  object.asked.clear();
  withdrawn_.emplace_back(id, false);
}

absl::Status HoldTable::NotHeld(const ObjectId& id) const {
  if (auto ended = ended_.find(id.process); ended != ended_.end()) {
    const std::string& cause = ended->second.cause;
    return absl::NotFoundError(id.ToString() + " is lost: its owner " + ended->second.name + " has ended" +
                               (cause.empty() ? "" : " (" + cause + ")") + " and nobody else held it; make it again");
  }
  if (auto owner = processes_.find(id.process); owner != processes_.end()) {
    return absl::NotFoundError(id.ToString() + " of " + owner->second.name +
                               " is gone: everybody let it go; keep a ref as long as it is wanted");
  }
  return absl::NotFoundError(id.ToString() + " is not known on this node, nor is its owner");
}

}  // namespace troupe
