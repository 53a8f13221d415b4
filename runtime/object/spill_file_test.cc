// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/spill_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "runtime/env/file.h"

namespace troupe {
namespace {

TEST_CASE("SpillFile: what was written is read; a damaged, cut or foreign file is DATA_LOSS", "[object]") {
  std::string folder = MakeTemporaryDirectory("spill").value();
  std::string path = folder + "/1.spill";
  std::vector<std::byte> bytes(100'000), read(100'000);
  std::mt19937_64 random(3);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  REQUIRE(WriteSpillFile(path, 7, bytes).ok());
  REQUIRE(ReadSpillFile(path, 7, read).ok());
  CHECK(read == bytes);
  CHECK(ReadSpillFile(path, 8, read).code() == absl::StatusCode::kDataLoss);
  CHECK(ReadSpillFile(path, 7, std::span(read).first(99'999)).code() == absl::StatusCode::kDataLoss);
  CHECK(ReadSpillFile(folder + "/2.spill", 7, read).code() == absl::StatusCode::kNotFound);
  const std::string good = ReadFile(path, 1 << 20).value();
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    if (i % 2 == 0) bad[random() % bad.size()] ^= static_cast<char>(1 << (random() % 8));
    if (i % 2 == 1) bad.resize(random() % bad.size());
    REQUIRE(WriteFileAtomic(path, bad).ok());
    if (ReadSpillFile(path, 7, read).code() != absl::StatusCode::kDataLoss) FAIL(i);
  }
  std::filesystem::create_symlink("/dev/full", folder + "/full");
  CHECK(WriteSpillFile(folder + "/full", 7, bytes).code() == absl::StatusCode::kResourceExhausted);
  CHECK_FALSE(FileExists(folder + "/full"));
  CHECK(WriteSpillFile(folder + "/none/1.spill", 7, bytes).code() == absl::StatusCode::kNotFound);
  (void)RemoveTree(folder);
}

}  // namespace
}  // namespace troupe
