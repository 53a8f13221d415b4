// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/payload_transfer.h"

#include <algorithm>

namespace troupe {
namespace {

// Transfers that ask and have no credit yet.
constexpr size_t kWaitingMax = 4096;

Envelope Chunk(uint64_t transfer, size_t total, std::string bytes) {
  Envelope chunk;
  chunk.kind = Envelope::Kind::kChunk;
  chunk.transfer = transfer;
  chunk.items = total;
  chunk.bytes = std::move(bytes);
  return chunk;
}

Envelope Credit(uint64_t transfer, size_t bytes, absl::Status refused) {
  Envelope credit;
  credit.kind = Envelope::Kind::kCredit;
  credit.transfer = transfer;
  credit.items = bytes;
  credit.status = std::move(refused);
  return credit;
}

}  // namespace

PayloadSender::Out PayloadSender::Push(Envelope&& envelope, Lane lane) {
  Out out;
  auto held = lane == 0 ? lanes_.end() : lanes_.find(lane);
  if (held != lanes_.end()) {
    ++held_;
    bytes_ += envelope.bytes.size();
    held->second.push_back(std::move(envelope));
  } else {
    Start(std::move(envelope), lane, out);
  }
  return out;
}

void PayloadSender::Start(Envelope&& envelope, Lane lane, Out& out) {
  if (envelope.bytes.size() <= limits_.whole_bytes_max) return out.send.push_back(std::move(envelope));
  const uint64_t number = ++made_;
  out.send.push_back(Chunk(number, envelope.bytes.size(), ""));
  const size_t total = envelope.bytes.size();
  bytes_ += total;
  transfers_[number] = {std::move(envelope), lane, total};
  if (lane != 0) lanes_[lane];
}

absl::StatusOr<PayloadSender::Out> PayloadSender::TakeCredit(const Envelope& credit) {
  Out out;
  auto found = transfers_.find(credit.transfer);
  if (found == transfers_.end()) return out;  // It was dropped.
  Transfer& transfer = found->second;
  if (!credit.status.ok()) {
    out.refused.emplace_back(std::move(transfer.envelope), credit.status);
    End(credit.transfer, out);
    return out;
  }
  if (credit.items > transfer.total - transfer.sent - transfer.credit) {
    return absl::InvalidArgumentError("credit for more of a payload than there is");
  }
  transfer.credit += credit.items;
  Advance(credit.transfer, out);
  return out;
}

void PayloadSender::Advance(uint64_t number, Out& out) {
  Transfer& transfer = transfers_.at(number);
  std::string& bytes = transfer.envelope.bytes;
  while (transfer.credit > 0) {
    size_t count = std::min(limits_.chunk_bytes, transfer.credit);
    out.send.push_back(Chunk(number, transfer.total, bytes.substr(transfer.sent, count)));
    transfer.sent += count;
    transfer.credit -= count;
  }
  if (transfer.sent < transfer.total) return;
  bytes = std::string();
  transfer.envelope.transfer = number;
  out.send.push_back(std::move(transfer.envelope));
  End(number, out);
}

void PayloadSender::End(uint64_t number, Out& out) {
  const Lane lane = transfers_.at(number).lane;
  bytes_ -= transfers_.at(number).total;
  transfers_.erase(number);
  if (lane == 0) return;
  std::deque<Envelope> held = std::move(lanes_.at(lane));
  lanes_.erase(lane);
  while (!held.empty() && !Holds(lane)) {
    --held_;
    bytes_ -= held.front().bytes.size();
    Start(std::move(held.front()), lane, out);
    held.pop_front();
  }
  if (!held.empty()) lanes_[lane] = std::move(held);  // Behind another large one.
}

PayloadSender::Out PayloadSender::Drop(uint64_t call_id) {
  Out out;
  for (auto& [lane, held] : lanes_) {
    for (auto it = held.begin(); it != held.end();) {
      bool drops = it->call_id == call_id;
      if (drops) --held_;
      if (drops) bytes_ -= it->bytes.size();
      it = drops ? held.erase(it) : it + 1;
    }
  }
  for (const auto& [number, transfer] : transfers_) {
    if (transfer.envelope.call_id != call_id) continue;
    out.send.push_back(Chunk(number, 0, ""));
    End(number, out);
    break;
  }
  return out;
}

absl::StatusOr<std::vector<Envelope>> PayloadReceiver::TakeChunk(Envelope&& chunk) {
  std::vector<Envelope> credits;
  auto found = transfers_.find(chunk.transfer);
  if (chunk.items == 0) {  // It is not sent after all.
    Forget(chunk.transfer);
    Admit(credits);
    return credits;
  }
  if (found == transfers_.end()) {
    if (!chunk.bytes.empty()) return absl::InvalidArgumentError("a chunk of a payload that has no credit");
    if (chunk.items > limits_.payload_bytes_max) {
      credits.push_back(Credit(
          chunk.transfer, 0,
          absl::ResourceExhaustedError("the payload has " + std::to_string(chunk.items) + " bytes, more than the " +
                                       std::to_string(limits_.payload_bytes_max) + " that the other process takes")));
      return credits;
    }
    for (const auto& [number, total] : waiting_) {
      if (number == chunk.transfer) return absl::InvalidArgumentError("a payload that asks twice");
    }
    if (waiting_.size() >= kWaitingMax) return absl::InvalidArgumentError("too many payloads at once");
    waiting_.emplace_back(chunk.transfer, chunk.items);
    Admit(credits);
    return credits;
  }
  Transfer& transfer = found->second;
  if (chunk.items != transfer.total || chunk.bytes.empty() ||
      transfer.bytes.size() + chunk.bytes.size() > transfer.granted) {
    return absl::InvalidArgumentError("a chunk of a payload beyond its credit");
  }
  transfer.bytes += chunk.bytes;
  Grant(chunk.transfer, transfer, credits);
  return credits;
}

void PayloadReceiver::Grant(uint64_t number, Transfer& transfer, std::vector<Envelope>& credits) const {
  size_t on_way = transfer.granted - transfer.bytes.size();
  size_t more = std::min(limits_.credit_bytes - on_way, transfer.total - transfer.granted);
  if (more == 0 || (on_way > limits_.credit_bytes / 2 && transfer.granted > 0)) return;
  transfer.granted += more;
  credits.push_back(Credit(number, more, absl::OkStatus()));
}

void PayloadReceiver::Admit(std::vector<Envelope>& credits) {
  while (!waiting_.empty()) {
    auto [number, total] = waiting_.front();
    if (transfers_.size() >= limits_.assembled_max) return;
    if (assembled_bytes_ > 0 && assembled_bytes_ + total > limits_.assembled_bytes_max) return;
    waiting_.pop_front();
    assembled_bytes_ += total;
    Transfer& transfer = transfers_[number];
    transfer.total = total;
    transfer.bytes.reserve(total);
    Grant(number, transfer, credits);
  }
}

void PayloadReceiver::Forget(uint64_t number) {
  std::erase_if(waiting_, [number](const auto& waits) { return waits.first == number; });
  auto found = transfers_.find(number);
  if (found == transfers_.end()) return;
  assembled_bytes_ -= found->second.total;
  transfers_.erase(found);
}

absl::StatusOr<std::string> PayloadReceiver::Finish(uint64_t transfer, std::vector<Envelope>& credits) {
  auto found = transfers_.find(transfer);
  if (found == transfers_.end() || found->second.bytes.size() != found->second.total) {
    return absl::InvalidArgumentError("a message whose payload has not come");
  }
  std::string bytes = std::move(found->second.bytes);
  Forget(transfer);
  Admit(credits);
  return bytes;
}

}  // namespace troupe
