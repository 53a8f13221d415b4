// SPDX-License-Identifier: Apache-2.0
// The line between an ObjectStore and its node's broker: what is told, what is told again after a restart of the agent,
// and what the broker says by itself.
#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/object/object_store.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

constexpr absl::Duration kNoticeReplyTimeout = absl::Seconds(10);
constexpr absl::Duration kRedialFirst = absl::Milliseconds(10);
constexpr absl::Duration kRedialMax = absl::Seconds(1);
// Of an error's text: within ObjectLine::kPacketBytesMax.
constexpr size_t kErrorBytesMax = 1024;
// How often refs on their way are looked at.
constexpr absl::Duration kExpirePeriod = absl::Seconds(1);

}  // namespace

v1::ObjectRequest ObjectStore::OpenRequest(bool notices) const {
  v1::ObjectRequest request;
  request.mutable_open()->set_process(process_);
  request.mutable_open()->set_name(options_.name);
  if (!life_.path.role.empty()) *request.mutable_open()->mutable_owner() = life_.ToProto();
  request.mutable_open()->set_notices(notices);
  request.mutable_open()->set_exchange(options_.elsewhere != nullptr);
  return request;
}

void ObjectStore::UseBroker(const std::string& socket_path, const ActorLife& life) {
  socket_path_ = socket_path;
  life_ = life;
  has_broker_ = true;
}

bool ObjectStore::Online() {
  if (connected_) return true;
  if (!has_broker_) return false;
  MutexLock lock(connect_mutex_);
  // One that is away is tried again when it is needed again.
  return connected_ || (has_broker_ && Connect().ok());
}

absl::Status ObjectStore::Join() {
  return Online() ? absl::OkStatus() : absl::UnavailableError("the broker at " + socket_path_ + " does not answer");
}

absl::Status ObjectStore::Connect() {
  // Before the line: nothing that the broker says by itself is missed.
  TROUPE_ASSIGN_OR_RETURN(UnixSocket socket, ListenForNotices());
  TROUPE_ASSIGN_OR_RETURN(auto wake, UnixSocket::Pair(UnixSocketKind::kStream));
  MutexLock lock(line_mutex_);
  line_ = std::make_unique<ObjectLine>(socket_path_, [this](ObjectLine& line) { return Resync(line); });
  if (absl::Status dialed = line_->Dial(); !dialed.ok()) {
    line_ = nullptr;
    return dialed;
  }
  wake_ = std::move(wake.first);
  wake_other_end_ = std::move(wake.second);
  connected_ = true;
  notices_ = std::thread([this, socket = std::move(socket)]() mutable { RunNotices(std::move(socket)); });
  return absl::OkStatus();
}

void ObjectStore::Shutdown() {
  {
    MutexLock lock(connect_mutex_);
    has_broker_ = false;
  }
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  wake_other_end_.Shutdown();
  if (notices_.joinable()) notices_.join();
  if (restorer_.joinable()) restorer_.join();
  connected_ = false;
  std::map<uint64_t, Transit> transits;  // Let go of outside the locks.
  MutexLock line_lock(line_mutex_);
  line_ = nullptr;
  MutexLock lock(mutex_);
  transits.swap(transits_);
}

absl::StatusOr<ObjectAnswer> ObjectStore::Ask(const v1::ObjectRequest& request, const std::vector<int>& fds) {
  MutexLock lock(line_mutex_);
  if (line_ == nullptr) return absl::UnavailableError("the objects of this process are shut down");
  return line_->Ask(request, fds);
}

bool ObjectStore::Tell(const v1::ObjectRequest& request) {
  MutexLock lock(line_mutex_);
  // What is lost with a line is told again by Resync.
  return line_ != nullptr && line_->Tell(request).ok();
}

absl::Status ObjectStore::Resync(ObjectLine& line) {
  TROUPE_ASSIGN_OR_RETURN(ObjectAnswer opened, line.Exchange(OpenRequest(false)));
  MutexLock lock(mutex_);
  node_id_ = opened.reply.node_id();
  endpoint_ = opened.reply.endpoint();
  spill_folder_ = opened.reply.spill_folder();
  v1::ObjectRequest request;
  auto add_file = [&](const FileKey& key, int fd) {
    request.mutable_add_file()->set_process(key.first);
    request.mutable_add_file()->set_file(key.second);
    (void)line.Exchange(request, {fd});  // One that is refused cannot be shared; the line is good.
  };
  for (uint32_t number : pool_.Files()) add_file({process_, number}, pool_.Find(number)->fd());
  auto say = [&](const ObjectId& id, const ObjectPlace& place, bool away) {
    request.mutable_export_object()->Clear();
    *request.mutable_export_object()->mutable_name() = id.ToProto();
    *request.mutable_export_object()->mutable_place() = place.ToProto();
    request.mutable_export_object()->set_away(away);
    (void)line.Tell(request);
  };
  for (auto& [id, known] : entries_) {
    ObjectEntry& entry = *known.entry;
    if (entry.view_ != nullptr) add_file({entry.place_.process, entry.place_.file}, entry.view_->fd());
    if (entry.origin_ == nullptr || entry.data_ != nullptr) {
      say(id, entry.place_, !entry.spill_path_.empty());
    } else {
      request.mutable_hold()->Clear();
      *request.mutable_hold()->mutable_name() = id.ToProto();
      const std::string& node = entry.origin_->node_id;
      if (!node.empty() && node != node_id_) *request.mutable_hold()->mutable_home() = HomeOf(entry);
      entry.exported_ = line.Tell(request).ok();
    }
  }
  for (const auto& [sequence, lent] : lent_) {
    ObjectId id{process_, sequence};
    say(id, lent.place, !lent.spill_path.empty());
    if (entries_.contains(id)) continue;
    *request.mutable_release()->mutable_name() = id.ToProto();
    (void)line.Tell(request);
  }
  return line.open() ? absl::OkStatus() : absl::UnavailableError("the broker of objects hung up");
}

absl::StatusOr<UnixSocket> ObjectStore::ListenForNotices() {
  TROUPE_ASSIGN_OR_RETURN(UnixSocket socket, UnixSocket::Connect(socket_path_, UnixSocketKind::kSeqPacket));
  Monotonic deadline = MonotonicNow() + kNoticeReplyTimeout;
  TROUPE_RETURN_IF_ERROR(socket.Send(OpenRequest(true).SerializeAsString(), {}, deadline));
  TROUPE_ASSIGN_OR_RETURN(UnixPacket packet, socket.Receive(ObjectLine::kPacketBytesMax, deadline));
  v1::ObjectReply reply;
  if (!reply.ParseFromString(packet.bytes)) return absl::DataLossError("the broker of objects sent a broken reply");
  TROUPE_RETURN_IF_ERROR(FromErrorStatus(reply.error()));
  return socket;
}

void ObjectStore::RunNotices(UnixSocket socket) {
  absl::Duration redial = kRedialFirst;
  while (true) {
    std::vector<int> fds = {wake_.fd()};
    if (socket.valid()) fds.push_back(socket.fd());
    Monotonic until = MonotonicNow() + (socket.valid() ? kExpirePeriod : redial);
    absl::StatusOr<std::vector<size_t>> ready = WaitForAny(fds, until);
    if (!ready.ok() || (!ready->empty() && ready->front() == 0)) return;
    if (!socket.valid()) {
      absl::StatusOr<UnixSocket> again = ListenForNotices();
      redial = again.ok() ? kRedialFirst : std::min(2 * redial, kRedialMax);
      if (!again.ok()) continue;
      socket = *std::move(again);
      // The broker may be another one, or may have missed something of this process, and this process of it.
      MutexLock lock(line_mutex_);
      (void)line_->Dial();
      continue;
    }
    if (ready->empty()) {
      ExpireTransits();
      continue;
    }
    absl::StatusOr<UnixPacket> packet = socket.Receive(ObjectLine::kPacketBytesMax, MonotonicNow());
    v1::ObjectNotice notice;
    if (packet.ok() && notice.ParseFromString(packet->bytes)) {
      Take(notice);
    } else if (!absl::IsDeadlineExceeded(packet.status())) {
      socket = UnixSocket();
    }
  }
}

void ObjectStore::Take(const v1::ObjectNotice& notice) {
  ObjectHandle arrived;  // Let go of outside the lock.
  {
    MutexLock lock(mutex_);
    if (notice.has_freed()) {
      for (uint64_t sequence : notice.freed().sequences()) {
        auto found = lent_.find(sequence);
        if (found == lent_.end()) continue;
        found->second.freed = true;
        if (!found->second.busy) EndLent(sequence);
      }
    } else if (notice.notice_case() == v1::ObjectNotice::kClaimedTransit) {
      auto transit = transits_.find(notice.claimed_transit());
      if (transit != transits_.end()) {
        arrived = std::move(transit->second.handle);
        transits_.erase(transit);
      }
    } else if (notice.has_arrived()) {
      ++arrivals_;
      absl::Status error = FromErrorStatus(notice.arrived().error());
      auto waits = entries_.find(ObjectId::FromProto(notice.arrived().name()));
      if (!error.ok() && waits != entries_.end()) not_arrived_[waits->first] = std::move(error);
      changed_.NotifyAll();
    } else if (notice.has_withdrawn()) {
      withdrawn_[notice.withdrawn().sequence()] = notice.withdrawn().away();
      changed_.NotifyAll();
    } else if (notice.notice_case() == v1::ObjectNotice::kRestore) {
      if (std::find(restores_.begin(), restores_.end(), notice.restore()) == restores_.end()) {
        restores_.push_back(notice.restore());
      }
      if (!restorer_.joinable()) restorer_ = std::thread([this] { RunRestores(); });
      changed_.NotifyAll();
    } else if (notice.has_file_removed()) {
      views_.erase({notice.file_removed().process(), notice.file_removed().file()});
    }
  }
  if (notice.has_elsewhere() && options_.elsewhere) options_.elsewhere(notice.elsewhere());
  if (notice.has_revoke()) TakeRevoke(ObjectId::FromProto(notice.revoke()));
  TellRemoved();
}

void ObjectStore::TakeRevoke(const ObjectId& id) {
  ObjectHandle handle;  // Let go of outside the lock.
  bool agrees = true;
  {
    MutexLock lock(mutex_);
    auto found = entries_.find(id);
    if (found != entries_.end()) handle = found->second.handle.lock();
    if (handle != nullptr) {
      int32_t unread = 0;
      agrees = !handle->resolving_ && (handle->pins_.load() < 0 || handle->pins_.compare_exchange_strong(unread, -1));
      if (agrees) {
        handle->data_ = nullptr;
        handle->view_ = nullptr;
      }
    }
  }
  v1::ObjectRequest request;
  *request.mutable_agree()->mutable_name() = id.ToProto();
  request.mutable_agree()->set_agrees(agrees);
  Tell(request);
}

// ---- Objects of other nodes ----

v1::ObjectHome ObjectStore::HomeOf(const ObjectEntry& entry) const {
  v1::ObjectHome home;
  home.set_node_id(entry.origin_->node_id);
  home.set_endpoint(entry.origin_->endpoint);
  home.set_size_bytes(entry.bytes_);
  return home;
}

void ObjectStore::TellElsewhere(const ObjectId& id, const ObjectId* copy, const absl::Status& error) {
  v1::ObjectRequest request;
  v1::TellElsewhere& tell = *request.mutable_elsewhere();
  *tell.mutable_name() = id.ToProto();
  if (copy != nullptr) *tell.mutable_copy() = copy->ToProto();
  if (!error.ok()) {
    *tell.mutable_error() = ToErrorStatus(error);
    std::string& text = *tell.mutable_error()->mutable_message();
    text.resize(std::min(text.size(), kErrorBytesMax));
  }
  Tell(request);
}

void ObjectStore::TellFigures(const v1::NodeObjectFigures& figures) {
  v1::ObjectRequest request;
  *request.mutable_tell_figures() = figures;
  Tell(request);
}

}  // namespace troupe
