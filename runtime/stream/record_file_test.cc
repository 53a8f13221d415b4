// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/record_file.h"

#include <catch2/catch.hpp>
#include <vector>

#include "runtime/env/file.h"

namespace troupe {
namespace {

struct Folder {
  std::string path = *MakeTemporaryDirectory("record-file-test");
  ~Folder() { RemoveTree(path).IgnoreError(); }
};

// A file with the two records, then with `change` made to its bytes.
template <typename Change>
std::string FileOfTwo(const Folder& folder, Change change) {
  std::string path = folder.path + "/records";
  REQUIRE(RemoveTree(path).ok());
  RecordFile file = *RecordFile::Open(path, {});
  REQUIRE(file.Append("first").ok());
  REQUIRE(file.Append("second").ok());
  std::string bytes = *ReadFile(path, 1 << 20);
  change(bytes);
  REQUIRE(WriteFileAtomic(path, bytes).ok());
  return path;
}

absl::StatusOr<std::vector<std::string>> RecordsOf(const std::string& path) {
  std::vector<std::string> records;
  absl::StatusOr<RecordFile> file = RecordFile::Open(path, [&](int64_t, std::string_view payload) {
    records.emplace_back(payload);
    return absl::OkStatus();
  });
  if (!file.ok()) return file.status();
  return records;
}

using Records = std::vector<std::string>;

}  // namespace

TEST_CASE("RecordFile: a tail that was torn or filled with zeros is cut off, and appending goes on", "[stream]") {
  Folder folder;
  for (size_t zeros : {4, 8, 16, 5000}) {
    CAPTURE(zeros);
    std::string path = FileOfTwo(folder, [&](std::string& bytes) { bytes.append(zeros, '\0'); });
    CHECK(*RecordsOf(path) == Records{"first", "second"});
    REQUIRE(RecordFile::Open(path, {})->Append("third").ok());
    CHECK(*RecordsOf(path) == Records{"first", "second", "third"});
  }
  // The header of the second record was written, its content and what followed was not.
  std::string path = FileOfTwo(folder, [](std::string& bytes) {
    bytes.resize(bytes.size() - 6);
    bytes.append(6 + 500, '\0');
  });
  CHECK(*RecordsOf(path) == Records{"first"});
  path = FileOfTwo(folder, [](std::string& bytes) { bytes.resize(bytes.size() - 2); });
  CHECK(*RecordsOf(path) == Records{"first"});
}

TEST_CASE("RecordFile: zeros or a flipped bit before the end are DATA_LOSS", "[stream]") {
  Folder folder;
  auto code = [&](auto change) { return RecordsOf(FileOfTwo(folder, change)).status().code(); };
  CHECK(code([](std::string& bytes) { bytes.replace(8, 8, 8, '\0'); }) == absl::StatusCode::kDataLoss);
  CHECK(code([](std::string& bytes) { bytes[17] ^= 1; }) == absl::StatusCode::kDataLoss);
}

TEST_CASE("RecordFile: an empty record is refused", "[stream]") {
  Folder folder;
  RecordFile file = *RecordFile::Open(folder.path + "/records", {});
  CHECK(absl::IsInvalidArgument(file.Append("").status()));
}

}  // namespace troupe
