// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/codec.h"

#include <google/protobuf/stubs/logging.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "troupe/v1/common.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace troupe {
namespace {

enum class Colour : uint8_t { kRed, kBlue = 7 };
struct Plain {};

static_assert(Encodable<std::map<std::string, std::vector<std::optional<double>>>>);
static_assert(Encodable<Colour> && Encodable<v1::ActorId> && Encodable<std::tuple<>>);
// A wrong type is a compile error.
static_assert(!Encodable<Plain> && !Encodable<int*> && !Encodable<std::vector<Plain>> && !Encodable<const char*>);
static_assert(!Encodable<std::optional<std::optional<int>>>);

struct Move {
  std::string piece;
  int32_t from = 0;
  std::optional<int32_t> to;
  friend bool operator==(const Move&, const Move&) = default;
};
TROUPE_STRUCT(Move, piece, from, to);
struct Game {
  std::vector<Move> moves;
  std::map<std::string, Move> last;
  friend bool operator==(const Game&, const Game&) = default;
};
TROUPE_STRUCT_VERSION(Game, 3, moves, last);

namespace other {  // What a peer of another version has.
struct Move {
  std::string piece;
};
TROUPE_STRUCT_VERSION(Move, 2, piece);
struct Game {
  std::vector<Move> moves;
};
TROUPE_STRUCT_VERSION(Game, 3, moves);
}  // namespace other

static_assert(Encodable<Game> && !Encodable<std::vector<std::pair<Plain, Game>>>);

template <typename T>
void CheckRoundTrip(const T& value) {
  CHECK(Decode<T>(Encode(value)).value() == value);
}

std::string ErrorOf(const absl::Status& status) {
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST_CASE("Codec: arguments are written as the tuple that they make, converted where they have another type",
          "[codec]") {
  const std::string text = "text";
  const std::tuple<int64_t, std::string, std::string, std::vector<int32_t>> tuple{7, "text", "more", {1, 2}};
  constexpr decltype(tuple)* kAs = nullptr;
  CHECK(internal::EncodeTuple(kAs, 7, text, "more", std::vector<int32_t>{1, 2}) == Encode(tuple));
}

TEST_CASE("Codec: structs travel by their fields; another version is an error that names both", "[codec]") {
  CheckRoundTrip(Move{"queen", 1, 2});
  CheckRoundTrip(Game{{{"a", 1, 2}, {"b", 3, std::nullopt}}, {{"x", {"c", 5, 6}}}});
  CheckRoundTrip(std::vector<int32_t>{1, -2, INT32_MAX});
  CheckRoundTrip(std::vector<uint64_t>{0, UINT64_MAX});
  CheckRoundTrip(std::vector<int8_t>{1, -2});
  auto error = [](const absl::Status& status) { return std::string(status.message()); };
  CHECK(error(Decode<Move>(Encode(other::Move{"x"})).status()) ==
        "expected struct Move version 1, found Move version 2: build both sides from the same source at byte 9 of 12");
  CHECK(error(Decode<Game>(Encode(other::Game{})).status()).find("with 2 fields, found 1") != std::string::npos);
  CHECK(error(Decode<Move>(Encode(Game{})).status()).find("found Game version 3") != std::string::npos);
  CHECK(error(Decode<Move>(Encode(int32_t{1})).status()).find("expected struct Move version 1, found an integer") !=
        std::string::npos);
  CHECK(error(Decode<std::vector<int32_t>>(Encode(std::vector<uint64_t>{1})).status())
            .find("expected integers of 32 bits, found 64 bits, unsigned") != std::string::npos);
}

TEST_CASE("Codec: every type comes back as it was", "[codec]") {
  CheckRoundTrip(true);
  CheckRoundTrip(false);
  for (int64_t n : {int64_t{0}, int64_t{-1}, int64_t{63}, int64_t{-65}, INT64_MAX, INT64_MIN}) CheckRoundTrip(n);
  for (uint64_t n : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) CheckRoundTrip(n);
  CheckRoundTrip(int8_t{-128});
  CheckRoundTrip(Colour::kBlue);
  CheckRoundTrip(-0.1);
  CheckRoundTrip(3.5f);
  CHECK(std::isnan(Decode<double>(Encode(std::nan(""))).value()));
  CheckRoundTrip(std::string("\0 bytes \xff", 9));
  CheckRoundTrip(std::vector<std::string>{"a", "", "b"});
  CheckRoundTrip(std::vector<float>{1, 2, 3});
  CheckRoundTrip(std::vector<bool>{true, false, true});
  CheckRoundTrip(std::vector<std::vector<double>>{{}, {1.5}});
  CheckRoundTrip(std::map<std::string, int>{{"a", 1}, {"b", -1}});
  CheckRoundTrip(std::unordered_map<int, std::string>{{1, "x"}});
  CheckRoundTrip(std::optional<int>{});
  CheckRoundTrip(std::optional<int>{5});
  CheckRoundTrip(std::tuple<int, std::string, std::pair<bool, double>>{1, "x", {true, 2}});
  v1::ActorId id;
  id.set_job_id("job");
  id.set_replica(3);
  CHECK(Decode<v1::ActorId>(Encode(id)).value().SerializeAsString() == id.SerializeAsString());
}

TEST_CASE("Codec: integers are read into any width that holds them, and refused by others", "[codec]") {
  CHECK(Decode<int8_t>(Encode(int64_t{-128})).value() == -128);
  CHECK(Decode<uint64_t>(Encode(int32_t{5})).value() == 5);
  CHECK(Decode<double>(Encode(int32_t{-5})).value() == -5.0);
  CHECK(Decode<double>(Encode(1.5f)).value() == 1.5);
  ErrorOf(Decode<int8_t>(Encode(int64_t{-129})).status());
  ErrorOf(Decode<int8_t>(Encode(uint64_t{128})).status());
  ErrorOf(Decode<uint32_t>(Encode(-1)).status());
  ErrorOf(Decode<int64_t>(Encode(UINT64_MAX)).status());
}

TEST_CASE("Codec: another type is an error that says what was expected and found", "[codec]") {
  CHECK(ErrorOf(Decode<int>(Encode(std::string("x"))).status()).find("expected an integer, found bytes") == 0);
  CHECK(ErrorOf(Decode<std::string>(Encode(1.0)).status()).find("expected bytes, found a double") == 0);
  CHECK(ErrorOf(Decode<std::tuple<int, int>>(Encode(std::tuple<int>(1))).status()).find("expected 2 values, found 1") ==
        0);
  CHECK(ErrorOf(Decode<v1::ActorId>(Encode(v1::WeightVersion())).status())
            .find("expected a troupe.v1.ActorId, found a troupe.v1.WeightVersion") == 0);
  ErrorOf(Decode<int>(Encode(1) + "x").status());
  ErrorOf(Decode<int>("").status());
  CHECK(ErrorOf(Decode<int>("\x02\x03\x02").status()).find("version 2") == 0);
}

TEST_CASE("Codec: a count that lies is refused before anything is allocated", "[codec]") {
  for (char tag : {'\x08', '\x09', '\x07', '\x0C'}) {
    std::string bytes = {1, tag, '\xff', '\xff', '\xff', '\xff', '\x7f'};
    CHECK_FALSE(Decode<std::vector<std::string>>(bytes).ok());
    CHECK_FALSE((Decode<std::map<int, int>>(bytes).ok()));
    CHECK_FALSE(Decode<std::string>(bytes).ok());
    CHECK_FALSE((Decode<std::tuple<int>>(bytes).ok()));
  }
  CHECK_FALSE(Decode<std::vector<double>>(std::string("\x01\x0D\x06\x02________", 12)).ok());
  CHECK_FALSE(Decode<int64_t>(std::string(1, 1) + "\x04" + std::string(10, '\xff') + "\x01").ok());
  // The same key twice.
  CHECK_FALSE((Decode<std::map<int, int>>(std::string("\x01\x09\x02\x03\x02\x03\x02\x03\x02\x03\x02", 11)).ok()));
}

TEST_CASE("Codec: mutated bytes give a value or an error, never a crash", "[codec]") {
  v1::ActorIncarnation life;
  life.mutable_id()->set_job_id("job");
  std::vector<std::string> corpus = {
      Encode(std::tuple<int8_t, uint64_t, bool, std::string>{1, 2, true, "text"}),
      Encode(std::tuple<double, float, std::vector<float>, std::vector<std::vector<int32_t>>>{1, 2, {3, 4}, {{5}, {}}}),
      Encode(std::map<std::string, std::optional<double>>{{"a", 1.0}, {"b", std::nullopt}}),
      Encode(std::tuple<v1::ActorIncarnation, std::vector<v1::ActorId>>{life, {life.id()}}),
      Encode(std::vector<std::pair<std::string, std::vector<double>>>{{"x", {1, 2}}})};
  google::protobuf::LogSilencer broken_text_is_meant;
  std::mt19937_64 random(7);
  for (int round = 0; round < 40'000; ++round) {
    std::string bytes = corpus[random() % corpus.size()];
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          if (bytes.size() > 1) bytes.erase(at, 1 + random() % 3);
      }
      if (bytes.empty()) bytes = "x";
    }
    REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) == 0);
  }
}

}  // namespace
}  // namespace troupe
