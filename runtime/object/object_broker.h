// SPDX-License-Identifier: Apache-2.0
// ObjectBroker: a node's broker of memory files, a part of the node agent. Processes put sealed files under an id and
// get them by it (object_client.h), and tell it which counted objects they hold (object_store.h), over a Unix socket.
// The broker passes descriptors on and counts. See DESIGN.md.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/env/unix_socket.h"
#include "runtime/object/broker_lines.h"
#include "runtime/object/hold_table.h"
#include "runtime/object/object_table.h"
#include "troupe/v1/object.pb.h"

namespace troupe {

struct ObjectBrokerOptions {
  std::string socket_path;       // In a folder that only this user may enter.
  int64_t bytes_max = 0;         // Of all objects together; 0: half of the machine's memory.
  int64_t worker_bytes_max = 0;  // Of those of one worker; 0: not limited but by all.
  int connections_max = 512;     // Two a process; more are closed at once.
  std::string node_id;
  std::string endpoint;      // Where other nodes' agents reach this one's exchange; "": nowhere.
  std::string spill_folder;  // Its processes spill into folders in it; removed at the end. "": nothing is spilled.
  // After a restart: so long nothing is given up, because who holds it may not have said so again.
  absl::Duration resync_grace = absl::ZeroDuration();
};

class ObjectBroker {
 public:
  // Serves on a thread of its own when it returns. Errors as of UnixListener::Listen.
  static absl::StatusOr<std::unique_ptr<ObjectBroker>> Start(ObjectBrokerOptions options);
  // Drops every object and removes the socket.
  ~ObjectBroker();

  // Any thread: that life has ended (its exit was seen); its objects go, unless they were put with `keep` or are held
  // by others. `cause`: a sentence.
  void OwnerEnded(const ActorLife& life, const std::string& cause = "");

  int64_t bytes() const;
  // Under an id, and counted.
  size_t objects() const;
  size_t held_objects() const;

 private:
  using Line = BrokerLines::Line;
  using Request = BrokerLines::Request;

  ObjectBroker(ObjectBrokerOptions options, UnixListener listener, UnixSocket wake, UnixSocket wake_other_end);
  void Run();
  // One pass: everything that has come is read, then handled in the order of each line. False: it is to end.
  bool Pass(Monotonic deadline);
  // `candidates` had no holder, and `agreed` nobody who minds, before the pass, which has read all that had come if it
  // is `whole`.
  void Sweep(std::vector<ObjectId> candidates, std::vector<std::pair<ObjectId, uint64_t>> agreed, bool whole);
  void TellSwept(const std::vector<ObjectId>& candidates) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ProcessEnded(ObjectProcess process);
  std::string SpillFolderOf(ObjectProcess process) const;
  void RemoveDeadSpills();
  bool Resyncing() const;

  // ---- Requests (broker_requests.cc) ----
  // As it is read. Exports are handled at once: who was sent a ref asks after its export was sent.
  void Take(Request request);
  void Handle(Request& request);
  // With the descriptor to send in `send`.
  v1::ObjectReply Answer(Request& request, UniqueFd& send);
  absl::Status Put(Request& request);
  absl::Status Get(const v1::GetObject& get, v1::ObjectReply& reply, UniqueFd& send);
  absl::Status Open(Line& from, const v1::OpenSession& open, v1::ObjectReply& reply);
  absl::Status AddFile(Request& request);
  absl::Status GetFile(const v1::GetObjectFile& get, v1::ObjectReply& reply, UniqueFd& send);
  absl::Status Hold(Line& from, const v1::HoldObject& hold, v1::ObjectReply& reply);
  void Claim(const v1::ClaimTransit& claim);
  void Export(ObjectProcess from, const v1::ExportObject& shared);
  void Withdraw(ObjectProcess from, const v1::WithdrawObject& withdraw);
  v1::NodeObjectFigures Figures() const;

  // ---- Objects of other nodes (broker_elsewhere.cc) ----
  // Of one that is not here.
  absl::Status HoldElsewhere(Line& from, const v1::HoldObject& hold, v1::ObjectReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeElsewhere(ObjectProcess from, const v1::TellElsewhere& tell);
  void TellExchange(const ObjectId& id, v1::ElsewhereNotice::What what);
  // All that it has to know, to one that may know nothing.
  void OpenExchange(ObjectProcess process);

  const ObjectBrokerOptions options_;
  const Monotonic resync_until_;
  UnixListener listener_;
  UnixSocket wake_;            // Read by the thread.
  UnixSocket wake_other_end_;  // Shut down by the destructor.
  // Of the thread alone.
  BrokerLines lines_;
  std::deque<Request> requests_;
  std::vector<ObjectId> unheld_;
  std::vector<std::pair<ObjectId, uint64_t>> agreed_;
  bool spills_cleaned_ = false;
  ObjectProcess exchange_ = 0;  // It fetches objects of other nodes; 0: nobody does.
  v1::NodeObjectFigures exchange_figures_;
  struct Elsewhere {
    v1::ObjectHome home;
    bool held = false;      // Its home knows that this node holds it.
    bool fetching = false;  // Somebody here waits for it.
  };
  std::map<ObjectId, Elsewhere> elsewhere_;  // Objects of other nodes that the exchange was told of.

  mutable Mutex mutex_;
  ObjectBudget budget_ ABSL_GUARDED_BY(mutex_);
  ObjectTable table_ ABSL_GUARDED_BY(mutex_);
  HoldTable holds_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace troupe
