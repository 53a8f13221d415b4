// SPDX-License-Identifier: Apache-2.0
// Sessions over connections that break at any point, under seeds: each envelope arrives once and in order, and what is
// kept stays bounded.
#include "runtime/transport/frame_session.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

// Calls of one of three methods, with as many bytes.
Envelope CallOf(uint64_t id, size_t bytes = 10) {
  static const auto* const routes = [] {
    auto* made = new std::vector<std::shared_ptr<const CallRoute>>;
    for (const char* method : {"A", "B", "C"}) {
      made->push_back(std::make_shared<const CallRoute>(CallRoute{{{JobId("j"), "r", 0}, 1}, method}));
    }
    return made;
  }();
  Envelope envelope;
  envelope.kind = Envelope::Kind::kCall;
  envelope.call_id = id;
  envelope.route = (*routes)[id % 3];
  envelope.bytes = std::string(bytes, 'x');
  return envelope;
}

// The ids of the calls of a frame that was accepted.
std::vector<uint64_t> CallsOf(v1::Frame frame, EnvelopeReader& reader) {
  std::vector<uint64_t> ids;
  REQUIRE(FrameSession::TakeEnvelopes(frame, reader, [&ids](Envelope&& envelope) {
            CHECK(envelope.route->method == std::string(1, static_cast<char>('A' + envelope.call_id % 3)));
            CHECK(envelope.bytes.find_first_not_of('x') == std::string::npos);
            ids.push_back(envelope.call_id);
            return absl::OkStatus();
          }).ok());
  return ids;
}

// Frames of all that waits.
std::vector<v1::Frame> Written(FrameSession& session) {
  std::vector<v1::Frame> frames;
  while (auto frame = session.Next()) frames.push_back(*frame);
  return frames;
}

constexpr FrameLimits kSmall = {.queue_envelopes_max = 100,
                                .queue_bytes_max = 10'000,
                                .frame_envelopes_max = 3,
                                .frame_bytes_max = 400,
                                .kept_bytes_max = 1200,
                                .kept_frames_max = 8,
                                .acknowledge_bytes = 600,
                                .acknowledge_frames = 3};

TEST_CASE("FrameSession: envelopes leave in order, together up to the frame's limits, in numbered frames",
          "[session]") {
  FrameLimits limits = kSmall;
  limits.kept_bytes_max = 10'000;
  FrameSession writes(limits), reads(limits);
  for (uint64_t id = 1; id <= 4; ++id) REQUIRE(writes.Push(CallOf(id)));
  REQUIRE(writes.Push(CallOf(5, 500)));  // Larger than a frame: alone in one.
  REQUIRE(writes.Push(CallOf(6)));
  EnvelopeReader reader;
  std::vector<std::vector<uint64_t>> calls;
  for (const v1::Frame& frame : Written(writes)) {
    REQUIRE(reads.Take(frame).value());
    calls.push_back(CallsOf(frame, reader));
  }
  CHECK(calls == std::vector<std::vector<uint64_t>>{{1, 2, 3}, {4}, {5}, {6}});
  CHECK(reads.received() == 4);
}

TEST_CASE("FrameSession: a full queue refuses, and an empty one takes an envelope of any size", "[session]") {
  FrameSession session({.queue_envelopes_max = 2, .queue_bytes_max = 500});
  REQUIRE(session.Push(CallOf(1, 1000)));
  CHECK(session.over_limit());
  Envelope kept = CallOf(2);
  CHECK_FALSE(session.Push(std::move(kept)));
  CHECK(kept.bytes.size() == 10);
  (void)session.Next();
  CHECK_FALSE(session.over_limit());
  CHECK(session.Push(CallOf(3)));
  CHECK(session.Push(CallOf(4)));
  CHECK_FALSE(session.Push(CallOf(5)));
}

TEST_CASE("FrameSession: nothing new is written while too much is not acknowledged", "[session]") {
  FrameSession writes(kSmall), reads(kSmall);
  for (uint64_t id = 1; id <= 60; ++id) REQUIRE(writes.Push(CallOf(id)));
  std::vector<v1::Frame> first = Written(writes);
  CHECK(first.size() == writes.kept_frames());
  CHECK(writes.kept_frames() == kSmall.kept_frames_max);
  CHECK(writes.kept_bytes() < kSmall.kept_bytes_max + kSmall.frame_bytes_max);
  for (size_t i = 0; i < 2; ++i) REQUIRE(reads.Take(first[i]).value());
  CHECK(reads.Next() == nullptr);  // Not yet.
  REQUIRE(reads.Take(first[2]).value());
  std::vector<v1::Frame> acknowledgement = Written(reads);
  REQUIRE(acknowledgement.size() == 1);
  CHECK(acknowledgement[0].sequence() == 0);
  CHECK_FALSE(writes.Take(acknowledgement[0]).value());
  CHECK(Written(writes).size() == 3);
}

TEST_CASE("FrameSession: however much waits, no more is kept for a side that acknowledges nothing", "[session]") {
  FrameSession writes(kSmall);
  for (uint64_t id = 1; id <= 200; ++id) writes.PushAlways(CallOf(id));
  CHECK(Written(writes).size() == kSmall.kept_frames_max);
  REQUIRE(writes.over_limit());
  v1::Frame frame;
  frame.set_acknowledges(4);
  REQUIRE(writes.TakeAcknowledgement(frame).ok());
  CHECK(Written(writes).size() == 4);
  frame.set_acknowledges(99);
  CHECK(writes.TakeAcknowledgement(frame).code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("FrameSession: frames out of sequence, empty, or with what is none are refused; repeated ones are dropped",
          "[session]") {
  auto check = [](auto change) {
    FrameSession writes, reads;
    writes.PushAlways(CallOf(1));
    v1::Frame frame = *writes.Next();
    change(frame);
    return reads.Take(frame).status().code();
  };
  CHECK(check([](v1::Frame&) {}) == absl::StatusCode::kOk);
  CHECK(check([](v1::Frame& frame) { frame.set_sequence(2); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.set_sequence(0); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.clear_records(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.mutable_hello(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.set_acknowledges(1); }) == absl::StatusCode::kDataLoss);

  FrameSession writes, reads;
  writes.PushAlways(CallOf(1));
  v1::Frame frame = *writes.Next();
  CHECK(reads.Take(frame).value());
  CHECK_FALSE(reads.Take(frame).value());
  CHECK(reads.duplicates() == 1);
}

TEST_CASE("FrameSession: large bytes travel beside the records, and cut or surplus ones are refused", "[session]") {
  auto check = [](auto change) {
    FrameSession writes;
    writes.PushAlways(CallOf(1, 20'000));
    v1::Frame frame = *writes.Next();
    change(frame);
    EnvelopeReader reader;
    return FrameSession::TakeEnvelopes(frame, reader,
                                       [](Envelope&& envelope) {
                                         return envelope.bytes == std::string(20'000, 'x')
                                                    ? absl::OkStatus()
                                                    : absl::InternalError("other bytes");
                                       })
        .code();
  };
  CHECK(check([](v1::Frame& frame) { REQUIRE(frame.tail().size() == 20'000); }) == absl::StatusCode::kOk);
  CHECK(check([](v1::Frame& frame) { frame.mutable_records()->pop_back(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.set_records(frame.records() + "\1\1\1"); }) != absl::StatusCode::kOk);
  // The record of the route, alone: the bytes belong to none.
  CHECK(check([](v1::Frame& frame) {
          uint32_t length = 0;
          std::memcpy(&length, frame.records().data(), sizeof(length));
          frame.mutable_records()->resize(sizeof(length) + length);
        }) == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("FrameSession: a hello names a stream of a session, in this version", "[session]") {
  FrameSession session;
  auto check = [&session](auto change) {
    v1::Frame frame = session.Hello("me", 7, 1);
    change(frame);
    return FrameSession::HelloOf(frame).status().code();
  };
  auto hello = [](v1::Frame& frame) { return frame.mutable_hello(); };
  CHECK(check([](v1::Frame&) {}) == absl::StatusCode::kOk);
  CHECK(check([](v1::Frame& frame) { frame.clear_hello(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.set_records("call"); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.set_sequence(1); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([&](v1::Frame& frame) { hello(frame)->clear_process(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([&](v1::Frame& frame) { hello(frame)->set_session(0); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([&](v1::Frame& frame) { hello(frame)->set_epoch(0); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([&](v1::Frame& frame) { hello(frame)->set_protocol_version(9); }) ==
        absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("FrameSession: a new stream begins with what the other side misses, or cannot begin", "[session]") {
  FrameSession writes(kSmall);
  for (uint64_t id = 1; id <= 9; ++id) REQUIRE(writes.Push(CallOf(id)));
  REQUIRE(Written(writes).size() == 3);
  REQUIRE(writes.Begin(1).ok());
  std::vector<v1::Frame> again = Written(writes);
  REQUIRE(again.size() == 2);
  CHECK(again[0].sequence() == 2);
  CHECK(writes.Begin(0).code() == absl::StatusCode::kDataLoss);  // It had the first.
  CHECK(writes.Begin(4).code() == absl::StatusCode::kDataLoss);  // There is no fourth.
  REQUIRE(writes.Begin(3).ok());
  CHECK(writes.kept_frames() == 0);
  CHECK(writes.Begin(2).code() == absl::StatusCode::kDataLoss);
}

// Two sides, and a connection that is cut whenever it likes.
struct Pair {
  explicit Pair(uint64_t seed) : random(seed) {}
  FrameSession sides[2] = {FrameSession(kSmall), FrameSession(kSmall)};
  EnvelopeReader readers[2];
  std::deque<v1::Frame> on_way[2];  // Towards each side.
  uint64_t sent[2] = {0, 0}, taken[2] = {0, 0};
  std::mt19937_64 random;

  void Step(bool pushes) {
    size_t side = random() % 2;
    uint64_t draw = random() % (pushes ? 40 : 20);
    if (draw == 0) return Cut();
    if (draw < 8) return Deliver(side);
    if (draw < 20) {
      if (auto frame = sides[side].Next()) on_way[1 - side].push_back(*frame);
    } else if (sides[side].Push(CallOf(sent[side] + 1, random() % 50))) {
      ++sent[side];
    }
  }
  // What is on its way is lost; both say what they have.
  void Cut() {
    for (auto& frames : on_way) frames.clear();
    uint64_t received[2] = {sides[0].received(), sides[1].received()};
    REQUIRE(sides[0].Begin(received[1]).ok());
    REQUIRE(sides[1].Begin(received[0]).ok());
  }
  void Deliver(size_t side) {
    if (on_way[side].empty()) return;
    v1::Frame frame = std::move(on_way[side].front());
    on_way[side].pop_front();
    absl::StatusOr<bool> takes = sides[side].Take(frame);
    REQUIRE(takes.ok());
    if (!*takes) return;
    for (uint64_t id : CallsOf(std::move(frame), readers[side])) REQUIRE(id == ++taken[side]);
  }
};

TEST_CASE("FrameSession: whatever the connection loses, each envelope arrives once and in order", "[session]") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    Pair pair(seed);
    for (int step = 0; step < 3000; ++step) {
      pair.Step(true);
      for (const FrameSession& side : pair.sides) {
        REQUIRE(side.kept_frames() <= kSmall.kept_frames_max);
        REQUIRE(side.kept_bytes() < kSmall.kept_bytes_max + kSmall.frame_bytes_max);
      }
    }
    for (int step = 0; step < 20'000 && (pair.taken[0] < pair.sent[1] || pair.taken[1] < pair.sent[0]); ++step) {
      pair.Step(false);
    }
    REQUIRE(pair.taken[0] == pair.sent[1]);
    REQUIRE(pair.taken[1] == pair.sent[0]);
    REQUIRE(pair.sent[0] > 100);
  }
}

}  // namespace
}  // namespace troupe
