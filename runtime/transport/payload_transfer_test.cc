// SPDX-License-Identifier: Apache-2.0
// Large payloads in chunks: what comes is what was sent, small envelopes pass by, order within a lane, bounds.
#include "runtime/transport/payload_transfer.h"

#include <catch2/catch.hpp>
#include <random>

namespace troupe {
namespace {

constexpr TransferLimits kSmall = {
    .whole_bytes_max = 20, .chunk_bytes = 10, .credit_bytes = 40, .payload_bytes_max = 500, .assembled_bytes_max = 500};

Envelope Call(uint64_t id, size_t bytes) {
  Envelope envelope;
  envelope.kind = Envelope::Kind::kCall;
  envelope.call_id = id;
  for (size_t i = 0; i < bytes; ++i) envelope.bytes += static_cast<char>('a' + (id + i) % 26);
  return envelope;
}

// Both ends, and what is on its way between them, first in first out.
struct Ends {
  explicit Ends(TransferLimits limits = kSmall) : sender(limits), receiver(limits) {}
  PayloadSender sender;
  PayloadReceiver receiver;
  std::deque<Envelope> forth, back;
  std::vector<Envelope> arrived;
  std::vector<std::pair<Envelope, absl::Status>> refused;
  size_t on_way_max = 0;

  void Push(Envelope envelope, uint64_t lane) { Put(sender.Push(std::move(envelope), lane)); }
  void Put(PayloadSender::Out out) {
    for (Envelope& envelope : out.send) forth.push_back(std::move(envelope));
    for (auto& one : out.refused) refused.push_back(std::move(one));
    size_t on_way = 0;
    for (const Envelope& envelope : forth) {
      on_way += envelope.kind == Envelope::Kind::kChunk ? envelope.bytes.size() : 0;
    }
    on_way_max = std::max(on_way_max, on_way);
  }
  bool StepForth() {
    if (forth.empty()) return false;
    Envelope envelope = std::move(forth.front());
    forth.pop_front();
    std::vector<Envelope> credits;
    if (envelope.kind == Envelope::Kind::kChunk) {
      credits = receiver.TakeChunk(std::move(envelope)).value();
    } else {
      if (envelope.transfer != 0) envelope.bytes = receiver.Finish(envelope.transfer, credits).value();
      arrived.push_back(std::move(envelope));
    }
    for (Envelope& credit : credits) back.push_back(std::move(credit));
    return true;
  }
  bool StepBack() {
    if (back.empty()) return false;
    Envelope credit = std::move(back.front());
    back.pop_front();
    Put(sender.TakeCredit(credit).value());
    return true;
  }
  void Settle() {
    while (StepForth() || StepBack()) continue;
  }
};

TEST_CASE("PayloadTransfer: a large payload comes whole, small ones pass it by, those of its lane do not",
          "[payload]") {
  Ends ends;
  ends.Push(Call(1, 300), 7);
  ends.Push(Call(2, 5), 7);
  ends.Push(Call(3, 200), 7);
  ends.Push(Call(4, 5), 7);
  ends.Push(Call(5, 5), 8);
  ends.Push(Call(6, 20), 0);
  CHECK(ends.sender.held() == 3);
  ends.Settle();
  std::vector<uint64_t> order;
  for (const Envelope& envelope : ends.arrived) {
    order.push_back(envelope.call_id);
    CHECK(envelope.bytes == Call(envelope.call_id, envelope.bytes.size()).bytes);
  }
  CHECK(order == std::vector<uint64_t>{5, 6, 1, 2, 3, 4});
  CHECK(ends.arrived[2].bytes.size() == 300);
  CHECK(ends.on_way_max <= kSmall.credit_bytes);
  CHECK(ends.sender.idle());
  CHECK(ends.sender.bytes() == 0);
  CHECK(ends.receiver.assembled_bytes() == 0);
}

TEST_CASE("PayloadTransfer: what is put together at once is bounded; the others wait", "[payload]") {
  Ends ends;
  for (uint64_t id = 1; id <= 10; ++id) ends.Push(Call(id, 200), 0);
  size_t most = 0;
  while (ends.StepForth() || ends.StepBack()) most = std::max(most, ends.receiver.assembled_bytes());
  CHECK(ends.arrived.size() == 10);
  CHECK(most == 400);
}

TEST_CASE("PayloadTransfer: however small they say they are, only so many are put together at once", "[payload]") {
  TransferLimits limits = kSmall;
  limits.assembled_max = 3;
  PayloadReceiver receiver(limits);
  auto take = [&receiver](uint64_t transfer, const std::string& bytes) {
    Envelope chunk;
    chunk.kind = Envelope::Kind::kChunk;
    chunk.transfer = transfer;
    chunk.items = 1;
    chunk.bytes = bytes;
    return receiver.TakeChunk(std::move(chunk)).value();
  };
  for (uint64_t transfer = 1; transfer <= 3; ++transfer) CHECK(take(transfer, "").size() == 1);
  for (uint64_t transfer = 4; transfer <= 100; ++transfer) REQUIRE(take(transfer, "").empty());
  for (uint64_t transfer = 1; transfer <= 100; ++transfer) {
    CHECK(take(transfer, "x").empty());
    std::vector<Envelope> credits;
    REQUIRE(receiver.Finish(transfer, credits).value() == "x");
    REQUIRE(credits.size() == (transfer <= 97 ? 1 : 0));
    if (!credits.empty()) CHECK(credits[0].transfer == transfer + 3);
  }
  CHECK(receiver.assembled_bytes() == 0);
}

TEST_CASE("PayloadTransfer: one that is too large is refused with its size, and what waited behind it goes on",
          "[payload]") {
  Ends ends;
  ends.Push(Call(1, 501), 7);
  ends.Push(Call(2, 5), 7);
  ends.Settle();
  REQUIRE(ends.refused.size() == 1);
  CHECK(ends.refused[0].first.call_id == 1);
  CHECK(std::string(ends.refused[0].second.message()).find("501 bytes, more than the 500") != std::string::npos);
  REQUIRE(ends.arrived.size() == 1);
  CHECK(ends.arrived[0].call_id == 2);
}

TEST_CASE("PayloadTransfer: one that is dropped ends at any point, on both sides", "[payload]") {
  for (int steps = 0; steps < 40; ++steps) {
    Ends ends;
    ends.Push(Call(1, 200), 7);
    ends.Push(Call(2, 5), 7);
    for (int i = 0; i < steps; ++i) i % 2 == 0 ? ends.StepForth() : ends.StepBack();
    ends.Put(ends.sender.Drop(1));
    ends.Settle();
    INFO(steps << " steps");
    CHECK(ends.arrived.back().call_id == 2);
    CHECK(ends.sender.idle());
    CHECK(ends.sender.bytes() == 0);
    CHECK(ends.receiver.assembled_bytes() == 0);
  }
}

TEST_CASE("PayloadTransfer: in any order of what comes, all of it arrives", "[payload]") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    Ends ends;
    std::map<uint64_t, uint64_t> last;  // By lane.
    uint64_t pushed = 0;
    for (int step = 0; step < 400; ++step) {
      uint64_t choice = random() % 4;
      if (choice == 0) {
        ++pushed;
        ends.Push(Call(pushed, random() % 100), 1 + pushed % 3);
      } else {
        choice == 1 ? ends.StepBack() : ends.StepForth();
      }
    }
    ends.Settle();
    INFO("seed " << seed);
    REQUIRE(ends.arrived.size() == pushed);
    for (const Envelope& envelope : ends.arrived) {
      REQUIRE(envelope.call_id > last[envelope.call_id % 3]);
      last[envelope.call_id % 3] = envelope.call_id;
      REQUIRE(envelope.bytes == Call(envelope.call_id, envelope.bytes.size()).bytes);
    }
  }
}

TEST_CASE("PayloadTransfer: chunks and credits that cannot be are refused", "[payload]") {
  PayloadReceiver receiver(kSmall);
  auto chunk = [&receiver](uint64_t transfer, size_t total, const std::string& bytes) {
    Envelope envelope;
    envelope.kind = Envelope::Kind::kChunk;
    envelope.transfer = transfer;
    envelope.items = total;
    envelope.bytes = bytes;
    return receiver.TakeChunk(std::move(envelope)).status().code();
  };
  CHECK(chunk(1, 100, "x") == absl::StatusCode::kInvalidArgument);
  CHECK(chunk(1, 100, "") == absl::StatusCode::kOk);
  CHECK(chunk(1, 100, "") == absl::StatusCode::kInvalidArgument);
  CHECK(chunk(1, 101, "x") == absl::StatusCode::kInvalidArgument);
  CHECK(chunk(1, 100, std::string(41, 'x')) == absl::StatusCode::kInvalidArgument);
  CHECK(chunk(1, 100, std::string(40, 'x')) == absl::StatusCode::kOk);
  std::vector<Envelope> credits;
  CHECK(receiver.Finish(1, credits).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(receiver.Finish(2, credits).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(chunk(2, 450, "") == absl::StatusCode::kOk);
  CHECK(chunk(2, 450, "") == absl::StatusCode::kInvalidArgument);
  CHECK(chunk(1, 0, "") == absl::StatusCode::kOk);
  CHECK(receiver.assembled_bytes() == 450);

  PayloadSender sender(kSmall);
  (void)sender.Push(Call(1, 100), 0);
  Envelope credit;
  credit.kind = Envelope::Kind::kCredit;
  credit.transfer = 1;
  credit.items = 101;
  CHECK_FALSE(sender.TakeCredit(credit).ok());
}

}  // namespace
}  // namespace troupe
