// SPDX-License-Identifier: Apache-2.0
// Large payloads in chunks, so that they hold up nobody: PayloadSender cuts them, PayloadReceiver puts them together.
// Both are pure: no lock, no clock, no IO; one of each on either side of a session.
//
//   sender                                   receiver
//   chunk(transfer, total, nothing)  ->                        asks
//                                    <-  credit(transfer, n)   n more bytes may come
//   chunk(transfer, total, bytes)    ->                        ... again and again
//   call | reply | item (transfer)   ->                        with what was put together
//
// What is on its way of a transfer is bounded by its credit; what is put together at once, in bytes and in number, by
// the receiver: later transfers wait for their first credit. Small envelopes go in between, but those of the same lane,
// which keep order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/transport/envelope.h"

namespace troupe {

struct TransferLimits {
  size_t whole_bytes_max = 2 << 20;  // Of a payload that goes whole.
  size_t chunk_bytes = 256 << 10;
  // Of one transfer on its way: enough for a fast line, and little for who waits behind it.
  size_t credit_bytes = 4 << 20;
  size_t payload_bytes_max = 1 << 30;
  // Of payloads that are being put together at once; one that is larger is alone. And how many: the other side says how
  // large each is, and each costs something here.
  size_t assembled_bytes_max = 1 << 30;
  size_t assembled_max = 256;
};

class PayloadSender {
 public:
  explicit PayloadSender(TransferLimits limits) : limits_(limits) {}

  // Of envelopes with one lane the order is kept; 0: none.
  using Lane = uint64_t;
  struct Out {
    std::vector<Envelope> send;                              // In that order.
    std::vector<std::pair<Envelope, absl::Status>> refused;  // By the receiver, with its reason.
  };

  Out Push(Envelope&& envelope, Lane lane);
  // INVALID_ARGUMENT: more than there is was asked for.
  absl::StatusOr<Out> TakeCredit(const Envelope& credit);
  // That call is not wanted any more: it is not sent, if it has not been.
  Out Drop(uint64_t call_id);

  // Then only large payloads have to come through here.
  bool idle() const { return transfers_.empty(); }
  bool Holds(Lane lane) const { return lanes_.count(lane) > 0; }
  // Envelopes that wait behind a transfer of their lane.
  size_t held() const { return held_; }
  // Payloads of transfers and of what waits behind them.
  size_t bytes() const { return bytes_; }

 private:
  struct Transfer {
    Envelope envelope;
    Lane lane = 0;
    size_t total = 0;
    size_t sent = 0;
    size_t credit = 0;
  };
  void Start(Envelope&& envelope, Lane lane, Out& out);
  void Advance(uint64_t number, Out& out);
  // The transfer is over: what its lane has held goes on.
  void End(uint64_t number, Out& out);

  const TransferLimits limits_;
  uint64_t made_ = 0;
  std::map<uint64_t, Transfer> transfers_;
  std::map<Lane, std::deque<Envelope>> lanes_;  // Behind a transfer each.
  size_t held_ = 0, bytes_ = 0;
};

class PayloadReceiver {
 public:
  explicit PayloadReceiver(TransferLimits limits) : limits_(limits) {}

  // Credits to send back. INVALID_ARGUMENT: a chunk that cannot be.
  absl::StatusOr<std::vector<Envelope>> TakeChunk(Envelope&& chunk);
  // The whole payload; credits, for others, are appended to `credits`. INVALID_ARGUMENT: there is no such, or not all.
  absl::StatusOr<std::string> Finish(uint64_t transfer, std::vector<Envelope>& credits);

  size_t assembled_bytes() const { return assembled_bytes_; }

 private:
  struct Transfer {
    size_t total = 0;
    size_t granted = 0;  // Of `total`.
    std::string bytes;
  };
  // Begins those for which there is room.
  void Admit(std::vector<Envelope>& credits);
  void Grant(uint64_t number, Transfer& transfer, std::vector<Envelope>& credits) const;
  void Forget(uint64_t number);

  const TransferLimits limits_;
  std::map<uint64_t, Transfer> transfers_;           // Those that are being put together.
  std::deque<std::pair<uint64_t, size_t>> waiting_;  // Numbers and totals, in their order.
  size_t assembled_bytes_ = 0;                       // The totals of transfers_.
};

}  // namespace troupe
