// SPDX-License-Identifier: Apache-2.0
// safetensors: what is written is read back; what is wrong with a file is named.
#include "actors/model/files/safetensors.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "catch2/catch.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

using Catch::Matchers::Contains;

// A file with the header `json` and `data_bytes` bytes of data.
std::string FileOf(const std::string& json, size_t data_bytes) {
  uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json + std::string(data_bytes, 'x');
}

std::string ParseError(const std::string& file) {
  return StatusText(ParseSafetensorsHeader({reinterpret_cast<const std::byte*>(file.data()), file.size()}).status());
}

const char* const kValid =
    R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
  "b": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]}})";

}  // namespace

TEST_CASE("Safetensors: what is written is read back, aligned", "[safetensors]") {
  std::string dir = MakeTemporaryDirectory("safetensors_test").value();
  std::string path = dir + "/x.safetensors";
  std::vector<float> values = {1.0f, -2.5f, 0.0f, 65504.0f};
  auto writer = SafetensorsWriter::Create(path,
                                          {{"a", ElementType::kF32, {2, 2}},
                                           {"b", ElementType::kBF16, {4}},
                                           {"c", ElementType::kF16, {4}},
                                           {"d", ElementType::kI64, {1}}},
                                          {{"format", "pt"}});
  REQUIRE(writer.ok());
  CHECK((*writer)->WriteFloats("b", values).code() == absl::StatusCode::kFailedPrecondition);  // not its turn
  REQUIRE((*writer)->WriteFloats("a", values).ok());
  REQUIRE((*writer)->WriteFloats("b", values).ok());
  CHECK((*writer)->WriteFloats("c", {1.0f}).code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(RemoveTree(path).ok());

  writer = SafetensorsWriter::Create(
      path, {{"a", ElementType::kF32, {2, 2}}, {"c", ElementType::kF16, {4}}, {"d", ElementType::kI64, {1}}}, {});
  REQUIRE((*writer)->WriteFloats("a", values).ok());
  REQUIRE((*writer)->WriteFloats("c", values).ok());
  CHECK((*writer)->Finish().code() == absl::StatusCode::kFailedPrecondition);  // d is missing
  int64_t seven = 7;
  REQUIRE((*writer)->WriteBytes("d", {reinterpret_cast<const std::byte*>(&seven), sizeof(seven)}).ok());
  REQUIRE((*writer)->Finish().ok());
  auto file = SafetensorsFile::Open(path);
  INFO(StatusText(file.status()));
  REQUIRE(file.ok());
  std::vector<float> read(4);
  for (const char* name : {"a", "c"}) {
    REQUIRE((*file)->ReadFloats(*(*file)->Find(name), absl::MakeSpan(read)).ok());
    CHECK(read == values);
  }
  CHECK(reinterpret_cast<uintptr_t>((*file)->Bytes(*(*file)->Find("a")).data()) % 64 == 0);
  CHECK((*file)->Find("z") == nullptr);
  REQUIRE(RemoveTree(dir).ok());
}

TEST_CASE("Safetensors: what is wrong with a header is named", "[safetensors]") {
  CHECK(ParseError(FileOf(kValid, 24)) == "OK");
  CHECK_THAT(ParseError("abc"), Contains("too short"));
  CHECK_THAT(ParseError(FileOf(kValid, 23)), Contains("'b'") && Contains("truncated"));
  CHECK_THAT(ParseError(FileOf(kValid, 25)), Contains("end at 24") && Contains("25 bytes"));
  CHECK_THAT(ParseError(std::string(8, '\xFF') + "{}"), Contains("header of"));
  CHECK_THAT(ParseError(FileOf("{\"a\": ", 0)), Contains("JSON"));
  auto one = [](const std::string& tensor, size_t data_bytes) {
    return ParseError(FileOf("{\"a\": " + tensor + "}", data_bytes));
  };
  CHECK_THAT(one(R"({"dtype": "F32", "shape": [2]})", 8), Contains("data_offsets"));
  CHECK_THAT(one(R"({"dtype": "F99", "shape": [2], "data_offsets": [0, 8]})", 8), Contains("'a'") && Contains("F99"));
  CHECK_THAT(one(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]})", 8), Contains("need 12 bytes"));
  CHECK_THAT(one(R"({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]})", 8), Contains("shape"));
  CHECK_THAT(one(R"({"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]})", 8),
             Contains("overflows"));
  CHECK_THAT(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]})", 8), Contains("8 to 0"));
  CHECK_THAT(one(R"({"dtype": "F32", "shape": [1], "data_offsets": [4, 8]})", 8), Contains("hole"));
  CHECK_THAT(ParseError(FileOf(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                                    "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}})",
                               6)),
             Contains("overlaps"));
  CHECK_THAT(ParseError(FileOf(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                                    "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
                               2)),
             Contains("'a' stands twice"));
  CHECK_THAT(ParseError(FileOf(std::string(100'000, '['), 0)), Contains("nested deeper"));
}

TEST_CASE("ElementType: float16 and bfloat16 round to nearest even, and back exactly", "[element_type]") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    uint16_t half = static_cast<uint16_t>(bits);
    float from_half = HalfToFloat(half), from_bfloat = BFloat16ToFloat(half);
    if (!std::isnan(from_half)) REQUIRE(FloatToHalf(from_half) == half);
    if (!std::isnan(from_bfloat)) REQUIRE(FloatToBFloat16(from_bfloat) == half);
  }
  CHECK(HalfToFloat(FloatToHalf(1.0f + 0x1p-11f)) == 1.0f);  // halfway: to even
  CHECK(HalfToFloat(FloatToHalf(1.0f + 3 * 0x1p-11f)) == 1.0f + 0x1p-9f);
  CHECK(HalfToFloat(FloatToHalf(65520.0f)) == std::numeric_limits<float>::infinity());
  CHECK(HalfToFloat(FloatToHalf(65519.0f)) == 65504.0f);
  CHECK(HalfToFloat(FloatToHalf(0x1p-25f)) == 0.0f);
  CHECK(HalfToFloat(FloatToHalf(0x1.8p-25f)) == 0x1p-24f);
  CHECK(BFloat16ToFloat(FloatToBFloat16(1.0f + 0x1p-8f)) == 1.0f);
  CHECK(std::isnan(BFloat16ToFloat(FloatToBFloat16(std::nanf("")))));
  CHECK(std::isnan(HalfToFloat(FloatToHalf(std::nanf("")))));
}

}  // namespace troupe
