// SPDX-License-Identifier: Apache-2.0
// Sessions over connections that break at any point, under seeds: each envelope arrives once and in order, and what is
// kept stays bounded.
#include "runtime/transport/frame_session.h"

#include <catch2/catch.hpp>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

v1::Envelope CallOf(uint64_t id, size_t bytes = 10) {
  v1::Envelope envelope;
  envelope.mutable_call()->set_call_id(id);
  envelope.mutable_call()->set_arguments(std::string(bytes, 'x'));
  return envelope;
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
                                .frame_bytes_max = 200,
                                .kept_bytes_max = 600,
                                .kept_frames_max = 8,
                                .acknowledge_bytes = 300,
                                .acknowledge_frames = 3};

TEST_CASE("FrameSession: envelopes leave in order, together up to the frame's limits, in numbered frames",
          "[session]") {
  FrameLimits limits = kSmall;
  limits.kept_bytes_max = 10'000;
  FrameSession writes(limits), reads(limits);
  for (uint64_t id = 1; id <= 4; ++id) REQUIRE(writes.Push(CallOf(id)));
  REQUIRE(writes.Push(CallOf(5, 500)));  // Larger than a frame: alone in one.
  REQUIRE(writes.Push(CallOf(6)));
  std::vector<int> sizes;
  uint64_t next_id = 1;
  for (const v1::Frame& frame : Written(writes)) {
    REQUIRE(reads.Take(frame).value());
    sizes.push_back(frame.envelopes_size());
    for (const v1::Envelope& envelope : frame.envelopes()) CHECK(envelope.call().call_id() == next_id++);
  }
  CHECK(sizes == std::vector<int>{3, 1, 1, 1});
  CHECK(reads.received() == 4);
}

TEST_CASE("FrameSession: a full queue refuses, and an empty one takes an envelope of any size", "[session]") {
  FrameSession session({.queue_envelopes_max = 2, .queue_bytes_max = 100});
  REQUIRE(session.Push(CallOf(1, 1000)));
  CHECK(session.over_limit());
  v1::Envelope kept = CallOf(2);
  CHECK_FALSE(session.Push(std::move(kept)));
  CHECK(kept.call().call_id() == 2);
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

TEST_CASE("FrameSession: who waits with the reading until less waits to be written goes on writing", "[session]") {
  FrameSession writes(kSmall);
  for (uint64_t id = 1; id <= 200; ++id) writes.PushAlways(CallOf(id));
  REQUIRE(writes.over_limit());
  REQUIRE(writes.Next() != nullptr);
  while (writes.over_limit()) REQUIRE(writes.Next() != nullptr);
  CHECK(writes.kept_frames() > kSmall.kept_frames_max);
  CHECK(writes.Next() == nullptr);
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
  CHECK(check([](v1::Frame& frame) { frame.clear_envelopes(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.add_envelopes(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.add_envelopes()->mutable_hello(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { frame.set_acknowledges(1); }) == absl::StatusCode::kDataLoss);

  FrameSession writes, reads;
  writes.PushAlways(CallOf(1));
  v1::Frame frame = *writes.Next();
  CHECK(reads.Take(frame).value());
  CHECK_FALSE(reads.Take(frame).value());
  CHECK(reads.duplicates() == 1);
}

TEST_CASE("FrameSession: a hello names a stream of a session, in this version", "[session]") {
  FrameSession session;
  auto check = [&session](auto change) {
    v1::Frame frame = session.Hello("me", 7, 1);
    change(frame);
    return FrameSession::HelloOf(frame).status().code();
  };
  auto hello = [](v1::Frame& frame) { return frame.mutable_envelopes(0)->mutable_hello(); };
  CHECK(check([](v1::Frame&) {}) == absl::StatusCode::kOk);
  CHECK(check([](v1::Frame& frame) { frame.clear_envelopes(); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { *frame.mutable_envelopes(0) = CallOf(1); }) == absl::StatusCode::kInvalidArgument);
  CHECK(check([](v1::Frame& frame) { *frame.add_envelopes() = CallOf(1); }) == absl::StatusCode::kInvalidArgument);
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
    for (const v1::Envelope& envelope : frame.envelopes()) REQUIRE(envelope.call().call_id() == ++taken[side]);
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
