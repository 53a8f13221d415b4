// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_broker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/memory.h"

namespace troupe {
namespace {

constexpr absl::Duration kNoticeRetry = absl::Milliseconds(5);
constexpr absl::Duration kPollRetry = absl::Milliseconds(100);
// Sequence numbers in one notice: a packet has at most 4 KiB.
constexpr size_t kFreedPerNotice = 400;

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectBroker>> ObjectBroker::Start(ObjectBrokerOptions options) {
  if (options.bytes_max == 0) options.bytes_max = UsableMemoryBytes() / 2;
  TROUPE_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Listen(options.socket_path, UnixSocketKind::kSeqPacket));
  TROUPE_ASSIGN_OR_RETURN(auto wake, UnixSocket::Pair(UnixSocketKind::kStream));
  return std::unique_ptr<ObjectBroker>(
      new ObjectBroker(std::move(options), std::move(listener), std::move(wake.first), std::move(wake.second)));
}

ObjectBroker::ObjectBroker(ObjectBrokerOptions options, UnixListener listener, UnixSocket wake,
                           UnixSocket wake_other_end)
    : options_(std::move(options)),
      resync_until_(MonotonicNow() + options_.resync_grace),
      listener_(std::move(listener)),
      wake_(std::move(wake)),
      wake_other_end_(std::move(wake_other_end)),
      lines_(static_cast<size_t>(options_.connections_max), [this](ObjectProcess process) { ProcessEnded(process); }),
      budget_{.bytes_max = options_.bytes_max, .worker_bytes_max = options_.worker_bytes_max},
      table_(budget_),
      holds_(budget_),
      thread_([this] { Run(); }) {}

ObjectBroker::~ObjectBroker() {
  wake_other_end_.Shutdown();
  thread_.join();
  if (!options_.spill_folder.empty()) (void)RemoveTree(options_.spill_folder);
}

bool ObjectBroker::Resyncing() const { return MonotonicNow() < resync_until_; }

void ObjectBroker::Run() {
  while (true) {
    Monotonic deadline = Monotonic::Infinite();
    if (Resyncing()) {
      deadline = resync_until_;
    } else if (!unheld_.empty() || !agreed_.empty()) {
      deadline = Monotonic();
    }
    if (lines_.HasUnsent()) deadline = std::min(deadline, MonotonicNow() + kNoticeRetry);
    if (!Pass(deadline)) return;
  }
}

bool ObjectBroker::Pass(Monotonic deadline) {
  std::vector<ObjectId> candidates;
  std::vector<std::pair<ObjectId, uint64_t>> agreed;
  if (!Resyncing()) {
    candidates.swap(unheld_);
    agreed.swap(agreed_);
    if (!spills_cleaned_) RemoveDeadSpills();
  }
  std::vector<int> fds = {wake_.fd(), listener_.fd()};
  lines_.AppendFds(fds);
  absl::StatusOr<std::vector<size_t>> ready = WaitForAny(fds, deadline);
  if (!ready.ok()) {  // The system is short of something.
    PauseFor(kPollRetry);
    return true;
  }
  bool accept = false, whole = true;
  for (size_t i : *ready) {
    if (i == 0) return false;
    if (i == 1) {
      accept = true;
    } else {
      whole = lines_.Read(lines_.line(i - 2), [this](Request request) { Take(std::move(request)); }) && whole;
    }
  }
  for (; !requests_.empty(); requests_.pop_front()) Handle(requests_.front());
  Sweep(std::move(candidates), std::move(agreed), whole);
  lines_.Flush();
  lines_.RemoveClosed();
  if (accept) lines_.Accept(listener_);
  return true;
}

void ObjectBroker::Sweep(std::vector<ObjectId> candidates, std::vector<std::pair<ObjectId, uint64_t>> agreed,
                         bool whole) {
  MutexLock lock(mutex_);
  if (!Resyncing()) holds_.ForgetPromises();
  for (const ObjectId& id : holds_.TakeUnheld()) unheld_.push_back(id);
  for (const auto& agreement : holds_.TakeAgreed()) agreed_.push_back(agreement);
  if (!whole) {
    unheld_.insert(unheld_.end(), candidates.begin(), candidates.end());
    agreed_.insert(agreed_.end(), agreed.begin(), agreed.end());
    candidates.clear();
    agreed.clear();
  }
  holds_.FinishWithdrawals(agreed);
  TellSwept(candidates);
}

void ObjectBroker::TellSwept(const std::vector<ObjectId>& candidates) {
  v1::ObjectNotice notice;
  for (const auto& [process, sequences] : holds_.Sweep(candidates)) {
    for (size_t i = 0; i < sequences.size(); ++i) {
      notice.mutable_freed()->add_sequences(sequences[i]);
      if ((i + 1) % kFreedPerNotice != 0 && i + 1 < sequences.size()) continue;
      lines_.Notify(process, notice);
      notice.Clear();
    }
  }
  for (const auto& [owner, file] : holds_.TakeDropped()) {
    notice.mutable_file_removed()->set_process(owner);
    notice.mutable_file_removed()->set_file(file);
    lines_.NotifyAllBut(owner, notice);
  }
  for (const ObjectId& id : holds_.TakeForgotten()) {
    if (elsewhere_.erase(id) > 0) TellExchange(id, v1::ElsewhereNotice::RELEASE);
  }
  for (const auto& [id, away] : holds_.TakeWithdrawn()) {
    notice.mutable_withdrawn()->set_sequence(id.sequence);
    notice.mutable_withdrawn()->set_away(away);
    lines_.Notify(id.process, notice);
  }
}

void ObjectBroker::ProcessEnded(ObjectProcess process) {
  {
    MutexLock lock(mutex_);
    holds_.Close(process);
  }
  if (!options_.spill_folder.empty()) (void)RemoveTree(SpillFolderOf(process));
}

std::string ObjectBroker::SpillFolderOf(ObjectProcess process) const {
  return options_.spill_folder + "/" + absl::StrFormat("%016x", process);
}

void ObjectBroker::RemoveDeadSpills() {
  spills_cleaned_ = true;
  if (options_.spill_folder.empty()) return;
  std::set<std::string> live;
  for (ObjectProcess process : lines_.Processes()) live.insert(SpillFolderOf(process));
  std::vector<std::string> names = ListDirectory(options_.spill_folder).value_or(std::vector<std::string>());
  for (const std::string& name : names) {
    std::string folder = options_.spill_folder + "/" + name;
    if (!live.contains(folder)) (void)RemoveTree(folder);
  }
}

void ObjectBroker::OwnerEnded(const ActorLife& life, const std::string& cause) {
  MutexLock lock(mutex_);
  table_.OwnerEnded(life);
  holds_.OwnerEnded(life, cause);
}

int64_t ObjectBroker::bytes() const {
  MutexLock lock(mutex_);
  return budget_.bytes;
}

size_t ObjectBroker::objects() const {
  MutexLock lock(mutex_);
  return table_.size();
}

size_t ObjectBroker::held_objects() const {
  MutexLock lock(mutex_);
  return holds_.objects();
}

}  // namespace troupe
