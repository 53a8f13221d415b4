// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/weight_transfer.h"

#include <catch2/catch.hpp>
#include <random>

#include "runtime/weights/manifest.h"

namespace troupe {
namespace {

v1::WeightVersion Version(int64_t attempt, int64_t step) {
  v1::WeightVersion version;
  version.set_attempt(attempt);
  version.set_step(step);
  return version;
}

// Three buckets: 64, 64 and 32 bytes; bucket i has the checksum 100 + i.
v1::WeightManifest Manifest(int64_t attempt, int64_t step, uint32_t salt = 0) {
  v1::WeightManifest manifest;
  *manifest.mutable_version() = Version(attempt, step);
  manifest.set_total_bytes(160);
  manifest.set_bucket_bytes(64);
  for (uint32_t i = 0; i < 3; ++i) manifest.add_bucket_crc32c(100 + i + salt);
  v1::WeightEntry& entry = *manifest.add_entries();
  entry.set_name("w");
  entry.set_dtype("float32");
  entry.add_shape(4);
  entry.add_shape(6);
  entry.set_offset_bytes(64);
  manifest.set_hash(ManifestHash(manifest));
  return manifest;
}

absl::StatusCode Send(WeightTransfer& transfer, int64_t index) {
  return transfer.Accept(index, index == 2 ? 32 : 64, static_cast<uint32_t>(100 + index)).code();
}

void Serve(WeightTransfer& transfer, int64_t attempt, int64_t step) {
  REQUIRE(transfer.Begin(Manifest(attempt, step)).ok());
  for (int64_t index = 0; index < 3; ++index) REQUIRE(Send(transfer, index) == absl::StatusCode::kOk);
  REQUIRE(transfer.Commit(Version(attempt, step)).ok());
}

TEST_CASE("Manifest: what does not fit together is refused", "[weights]") {
  REQUIRE(CheckManifest(Manifest(0, 1)).ok());
  auto refused = [](auto change) {
    v1::WeightManifest manifest = Manifest(0, 1);
    change(manifest);
    return CheckManifest(manifest).code() == absl::StatusCode::kInvalidArgument;
  };
  CHECK(refused([](auto& m) { m.set_total_bytes(0); }));
  CHECK(refused([](auto& m) { m.set_total_bytes(INT64_MAX); }));
  CHECK(refused([](auto& m) { m.set_bucket_bytes(0); }));
  CHECK(refused([](auto& m) { m.set_bucket_bytes(-64); }));
  CHECK(refused([](auto& m) { m.add_bucket_crc32c(1); }));
  CHECK(refused([](auto& m) { m.set_bucket_crc32c(1, 7); }));
  CHECK(refused([](auto& m) { m.set_hash(1); }));
  CHECK(refused([](auto& m) { m.mutable_version()->set_step(-1); }));
  CHECK(refused([](auto& m) { m.mutable_entries(0)->set_offset_bytes(32); }));
  CHECK(refused([](auto& m) { m.mutable_entries(0)->set_offset_bytes(128); }));
  CHECK(refused([](auto& m) { m.mutable_entries(0)->set_offset_bytes(-64); }));
  CHECK(refused([](auto& m) { m.mutable_entries(0)->set_dtype("float8"); }));
  CHECK(refused([](auto& m) { m.mutable_entries(0)->set_shape(0, INT64_MAX); }));
  CHECK(refused([](auto& m) { m.mutable_entries(0)->set_shape(0, 0); }));
  CHECK(refused([](auto& m) { m.mutable_entries(0)->clear_name(); }));
}

TEST_CASE("WeightTransfer: the old version serves until the new one is whole and committed", "[weights]") {
  WeightTransfer transfer;
  Serve(transfer, 0, 1);
  REQUIRE(transfer.Begin(Manifest(0, 2)).ok());
  CHECK(Send(transfer, 0) == absl::StatusCode::kOk);
  CHECK(transfer.Commit(Version(0, 2)).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(transfer.serving()->step() == 1);
  CHECK(Send(transfer, 1) == absl::StatusCode::kOk);
  CHECK(Send(transfer, 2) == absl::StatusCode::kOk);
  CHECK(transfer.serving()->step() == 1);
  CHECK(transfer.Commit(Version(0, 3)).code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(transfer.Commit(Version(0, 2)).ok());
  CHECK(transfer.serving()->step() == 2);
  CHECK_FALSE(transfer.open());
}

TEST_CASE("WeightTransfer: a corrupted, repeated, skipped or late bucket changes nothing", "[weights]") {
  WeightTransfer transfer;
  CHECK(Send(transfer, 0) == absl::StatusCode::kFailedPrecondition);
  REQUIRE(transfer.Begin(Manifest(0, 1)).ok());
  CHECK(transfer.Accept(0, 64, 99).code() == absl::StatusCode::kDataLoss);
  CHECK(transfer.Accept(0, 63, 100).code() == absl::StatusCode::kDataLoss);
  CHECK(Send(transfer, 1) == absl::StatusCode::kOutOfRange);
  CHECK(transfer.next() == 0);
  for (int64_t index = 0; index < 3; ++index) CHECK(Send(transfer, index) == absl::StatusCode::kOk);
  CHECK(Send(transfer, 2) == absl::StatusCode::kOutOfRange);
  CHECK(Send(transfer, 3) == absl::StatusCode::kOutOfRange);
  CHECK(transfer.whole());
}

TEST_CASE("WeightTransfer: the same manifest resumes, another one starts anew", "[weights]") {
  WeightTransfer transfer;
  REQUIRE(transfer.Begin(Manifest(0, 1)).ok());
  Send(transfer, 0);
  REQUIRE(transfer.Begin(Manifest(0, 1)).ok());
  CHECK(transfer.next() == 1);
  REQUIRE(transfer.Begin(Manifest(0, 1, 5)).ok());  // The same version with other content.
  CHECK(transfer.next() == 0);
  REQUIRE(transfer.Begin(Manifest(0, 2)).ok());
  CHECK(transfer.Commit(Version(0, 1)).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("WeightTransfer: versions are ordered by attempt, then step; an older attempt is refused", "[weights]") {
  WeightTransfer transfer;
  Serve(transfer, 1, 7);
  CHECK(transfer.Begin(Manifest(0, 99)).code() == absl::StatusCode::kAborted);
  CHECK(transfer.Begin(Manifest(1, 6)).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(transfer.Begin(Manifest(1, 7)).code() == absl::StatusCode::kAlreadyExists);
  Serve(transfer, 2, 3);  // (a + 1, k) after (a, k + 4).
  CHECK(transfer.serving()->attempt() == 2);
}

TEST_CASE("WeightTransfer: whatever happens, only a whole version ever serves", "[weights]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    WeightTransfer transfer;
    int64_t good = 0;  // Buckets of the open version that were accepted, by a count of our own.
    for (int step = 0; step < 60; ++step) {
      auto before = transfer.serving();
      switch (random() % 6) {
        case 0: {
          bool fresh = !transfer.open();
          v1::WeightManifest manifest =
              Manifest(static_cast<int64_t>(random() % 2), static_cast<int64_t>(random() % 4));
          bool same = !fresh && VersionEqual(transfer.manifest().version(), manifest.version());
          if (transfer.Begin(manifest).ok() && !same) good = 0;
          break;
        }
        case 1:
          transfer.Abort();
          good = 0;
          break;
        case 2: {
          if (!transfer.open()) break;
          v1::WeightVersion version = transfer.manifest().version();
          CHECK(transfer.Commit(version).ok() == (good == 3));
          if (good == 3) {
            CHECK(VersionEqual(*transfer.serving(), version));
            good = 0;
          }
          continue;
        }
        default:
          if (transfer
                  .Accept(static_cast<int64_t>(random() % 3), random() % 4 == 0 ? 32 : 64,
                          static_cast<uint32_t>(100 + random() % 3))
                  .ok()) {
            ++good;
          }
      }
      CHECK(transfer.serving().has_value() == before.has_value());
      if (before.has_value()) CHECK(VersionEqual(*transfer.serving(), *before));
    }
  }
}

}  // namespace
}  // namespace troupe
