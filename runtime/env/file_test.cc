// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/env/append_file.h"
#include "runtime/env/file_lock.h"
#include "runtime/env/mapped_file.h"
#include "runtime/env/memory.h"
#include "runtime/env/process.h"
#include "runtime/env/temporary_folder.h"

namespace troupe {
namespace {

struct TestFolder {
  std::string path = MakeTemporaryDirectory("file-test").value();
  ~TestFolder() { (void)RemoveTree(path); }
};

TEST_CASE("File: an atomic write is read back, replaced as a whole, and leaves nothing aside", "[file]") {
  TestFolder folder;
  std::string path = folder.path + "/a";
  REQUIRE(WriteFileAtomic(path, "old").ok());
  REQUIRE(WriteFileAtomic(path, std::string("new\0er", 6), 0600).ok());
  CHECK(ReadFile(path, 100).value() == std::string("new\0er", 6));
  CHECK(ListDirectory(folder.path).value() == std::vector<std::string>{"a"});
}

TEST_CASE("File: a write that fails leaves the old content and nothing aside", "[file]") {
  TestFolder folder;
  REQUIRE(MakeDirs(folder.path + "/a/b").ok());
  absl::Status status = WriteFileAtomic(folder.path + "/a", "x");  // A folder stands in its place.
  CHECK_FALSE(status.ok());
  CHECK(ListDirectory(folder.path).value() == std::vector<std::string>{"a"});
}

TEST_CASE("File: a file over the limit is refused, one at the limit is read", "[file]") {
  TestFolder folder;
  std::string path = folder.path + "/a";
  std::string content(300000, 'x');
  REQUIRE(WriteFileAtomic(path, content).ok());
  CHECK(ReadFile(path, 300000).value() == content);
  CHECK(ReadFile(path, 299999).status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReadFile(folder.path + "/none", 1).status().code() == absl::StatusCode::kNotFound);
  CHECK_FALSE(ReadFile("/proc/self/status", 1 << 20).value().empty());
}

TEST_CASE("File: folders are made with those above them and removed with those below", "[file]") {
  TestFolder folder;
  REQUIRE(MakeDirs(folder.path + "/x/y/z").ok());
  REQUIRE(MakeDirs(folder.path + "/x/y/z").ok());
  REQUIRE(WriteFileAtomic(folder.path + "/x/y/f", "1").ok());
  CHECK_FALSE(MakeDirs(folder.path + "/x/y/f").ok());
  CHECK_FALSE(MakeDirs(folder.path + "/x/y/f/g").ok());
  REQUIRE(RemoveTree(folder.path + "/x").ok());
  REQUIRE(RemoveTree(folder.path + "/x").ok());
  CHECK_FALSE(FileExists(folder.path + "/x"));
  CHECK(FreeBytes(folder.path).value() > 0);
}

TEST_CASE("MappedFile: a file's bytes are there, also none; what is no file is refused with its path", "[file]") {
  TestFolder folder;
  for (const std::string& content : {std::string("a\0b", 3), std::string()}) {
    REQUIRE(WriteFileAtomic(folder.path + "/a", content).ok());
    const absl::Span<const std::byte> bytes = MappedFile::Open(folder.path + "/a").value()->bytes();
    CHECK(bytes.size() == content.size());
  }
  REQUIRE(WriteFileAtomic(folder.path + "/a", "xyz").ok());
  const std::unique_ptr<MappedFile> file = MappedFile::Open(folder.path + "/a").value();
  CHECK(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()) == "xyz");
  CHECK(MappedFile::Open(folder.path + "/none").status().code() == absl::StatusCode::kNotFound);
  const absl::Status of_folder = MappedFile::Open(folder.path).status();
  CHECK(of_folder.code() == absl::StatusCode::kInvalidArgument);
  CHECK(of_folder.message().find(folder.path) != absl::string_view::npos);
}

TEST_CASE("FileLock: a second holder is refused and told who holds it, until the first lets go", "[file]") {
  TestFolder folder;
  FileLock first = FileLock::Acquire(folder.path + "/lock").value();
  absl::Status second = FileLock::Acquire(folder.path + "/lock").status();
  CHECK(second.code() == absl::StatusCode::kAlreadyExists);
  CHECK(std::string(second.message()).find("pid ") != std::string::npos);
  first.Release();
  CHECK(FileLock::Acquire(folder.path + "/lock").ok());
}

TEST_CASE("TemporaryFolder: goes at its end; what a killed owner left goes with the next one, what others use stays",
          "[file]") {
  const std::string name = "troupe-folder-test-" + std::to_string(::getpid());
  std::string left, gone;
  {
    TemporaryFolder mine = TemporaryFolder::Make(name).value();
    const std::string being_made = MakeTemporaryDirectory(name).value();  // It has no lock yet.
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const TemporaryFolder of_child = TemporaryFolder::Make(name).value();
      [[maybe_unused]] bool told = ::write(pipe[1], of_child.path().data(), of_child.path().size()) > 0;
      ::_exit(0);  // Without its end.
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    char path[256];
    const ssize_t size = ::read(pipe[0], path, sizeof(path));
    REQUIRE(size > 0);
    left = std::string(path, static_cast<size_t>(size));
    CHECK(FileExists(left));
    TemporaryFolder second = TemporaryFolder::Make(name).value();
    CHECK(!FileExists(left));
    CHECK(FileExists(mine.path()));
    CHECK(FileExists(second.path()));
    CHECK(FileExists(being_made));
    REQUIRE(RemoveTree(being_made).ok());
    TemporaryFolder moved = std::move(second);
    gone = moved.path();
    CHECK(FileExists(gone));
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  CHECK(!FileExists(gone));
}

TEST_CASE("AppendFile: appends survive a reopen, a torn tail can be cut, reads past the end are errors", "[file]") {
  TestFolder folder;
  std::string path = folder.path + "/log";
  {
    AppendFile file = AppendFile::Open(path).value();
    REQUIRE(file.Append("hello ").ok());
    REQUIRE(file.Sync().ok());
  }
  AppendFile file = AppendFile::Open(path).value();
  CHECK(file.size() == 6);
  REQUIRE(file.Append("world").ok());
  char bytes[5];
  REQUIRE(file.ReadAt(6, 5, bytes).ok());
  CHECK(std::string(bytes, 5) == "world");
  CHECK(file.ReadAt(7, 5, bytes).code() == absl::StatusCode::kOutOfRange);
  REQUIRE(file.Truncate(5).ok());
  REQUIRE(file.Append("!").ok());
  CHECK(ReadFile(path, 100).value() == "hello!");
}

TEST_CASE("Memory: what is left is read from the machine and the cgroup", "[memory]") {
  CHECK(internal::ParseMeminfo("MemTotal: 8 kB\nMemAvailable:    7 kB\n", "MemAvailable:") == 7 * 1024);
  CHECK(internal::ParseMeminfo("MemTotal: 8 kB\n", "MemAvailable:") == -1);
  CHECK(internal::ParseMeminfo("MemAvailable:", "MemAvailable:") == -1);
  std::string cgroup = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/c\n";
  CHECK(internal::ParseCgroupPath(cgroup, "memory") == "/a/b");
  CHECK(internal::ParseCgroupPath(cgroup, "") == "/c");
  CHECK(internal::ParseCgroupPath("x", "memory").empty());
  CHECK(AvailableMemoryBytes() > 0);
  CHECK(UsedMemoryBytes() > 0);
  CHECK(MachineMemoryBytes() >= UsedMemoryBytes());
  CHECK(UsableMemoryBytes() > 0);
  CHECK(UsableMemoryBytes() <= MachineMemoryBytes());
  CHECK(AvailableMemoryBytes() < int64_t{1} << 50);
}

TEST_CASE("Process: its own program is known by an absolute path", "[process]") {
  CHECK(OwnProgramPath().front() == '/');
  CHECK(OwnProgramPath().ends_with("/file_test"));
}

}  // namespace
}  // namespace troupe
