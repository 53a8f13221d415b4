// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/worker_log.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/env/file.h"

namespace troupe::keeper {
namespace {

const absl::Time kWall = absl::FromUnixMicros(1'790'000'000'123'456);

std::vector<std::string> Split(LineSplitter& splitter, std::string_view bytes) {
  std::vector<std::string> lines;
  splitter.Feed(bytes, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

struct Folder {
  std::string path = MakeTemporaryDirectory("troupe-log").value();
  ~Folder() { static_cast<void>(RemoveTree(path)); }
  std::string Read(const std::string& name) const {
    std::ifstream file(path + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
};

TEST_CASE("LineSplitter: lines end at any of the usual ends and keep what is unfinished", "[keeper]") {
  LineSplitter splitter;
  CHECK(Split(splitter, "a\nb\r\nc\rd") == std::vector<std::string>{"a", "b", "c"});
  CHECK(Split(splitter, "e\r") == std::vector<std::string>{"de"});
  CHECK(Split(splitter, "\n\nf") == std::vector<std::string>{""});
  std::vector<std::string> rest;
  splitter.Finish([&](std::string_view line) { rest.emplace_back(line); });
  splitter.Finish([&](std::string_view line) { rest.emplace_back(line); });
  CHECK(rest == std::vector<std::string>{"f"});
}

TEST_CASE("LineSplitter: an overlong line comes in pieces, never within a character", "[keeper]") {
  LineSplitter splitter(4);
  CHECK(Split(splitter, "abcdefghij\n") == std::vector<std::string>{"abcd", "efgh", "ij"});
  CHECK(Split(splitter, "abc\xC3\xA9xyz\n") == std::vector<std::string>{"abc", "\xC3\xA9xy", "z"});
  CHECK(Split(splitter, "\x80\x80\x80\x80\x80\x80\n") == std::vector<std::string>{"\x80\x80\x80\x80", "\x80\x80"});
  LineSplitter endless;
  for (int i = 0; i < 100; ++i) Split(endless, std::string(100'000, 'x'));
  size_t left = 0;
  endless.Finish([&](std::string_view line) { left += line.size(); });
  CHECK(left <= LineSplitter::kLineBytesMax);
}

TEST_CASE("WorkerLog: lines carry the time and the stream", "[keeper]") {
  Folder folder;
  WorkerLog log({.path = folder.path + "/deep/w.log"});
  log.Append(OutputStream::kStdout, "one\ntw", kWall, Monotonic());
  log.Append(OutputStream::kStderr, "bad\n", kWall, Monotonic());
  log.Append(OutputStream::kStdout, "o\nrest", kWall, Monotonic());
  log.Finish(kWall, Monotonic());
  CHECK(folder.Read("deep/w.log") ==
        "2026-09-21T14:13:20.123456Z O one\n2026-09-21T14:13:20.123456Z E bad\n"
        "2026-09-21T14:13:20.123456Z O two\n2026-09-21T14:13:20.123456Z O rest\n");
}

TEST_CASE("WorkerLog: keeps a bounded number of bounded files, the newest first", "[keeper]") {
  Folder folder;
  WorkerLog log({.path = folder.path + "/w.log", .file_bytes_max = 100, .files_max = 3});
  for (int i = 0; i < 50; ++i) {
    log.Append(OutputStream::kStdout, "line " + std::to_string(i) + "\n", kWall, Monotonic());
  }
  log.Append(OutputStream::kStdout, "last\n", kWall, Monotonic());
  log.Finish(kWall, Monotonic());
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    ++files;
    CHECK(entry.file_size() < 200);
  }
  CHECK(files == 3);
  CHECK(folder.Read("w.log").find("last") != std::string::npos);
  CHECK(folder.Read("w.log.1").find("line 49") == std::string::npos);
  CHECK(log.lines_dropped() == 0);
}

TEST_CASE("WorkerLog: lines that cannot be written are counted, and said so when writing works again", "[keeper]") {
  Folder folder;
  // A file where the folder should be.
  std::ofstream(folder.path + "/blocked").put('x');
  WorkerLog log({.path = folder.path + "/blocked/w.log"});
  Monotonic now;
  log.Append(OutputStream::kStdout, "lost\nlost too\n", kWall, now);
  CHECK(log.lines_dropped() == 2);
  std::filesystem::remove(folder.path + "/blocked");
  log.Append(OutputStream::kStdout, "lost: not tried again yet\n", kWall, now);
  CHECK(log.lines_dropped() == 3);
  now = now + WorkerLog::kRetryInterval;
  log.Append(OutputStream::kStdout, "kept\n", kWall, now);
  std::string text = folder.Read("blocked/w.log");
  INFO(text);
  CHECK(text.find("E [keeper] 3 lines were dropped: ") != std::string::npos);
  CHECK(text.find("O kept\n") != std::string::npos);
  CHECK(text.find("lost") == std::string::npos);
}

TEST_CASE("WorkerLog: a full disk drops lines", "[keeper]") {
  WorkerLog log({.path = "/dev/full"});
  log.Append(OutputStream::kStdout, "a\nb\n", kWall, Monotonic());
  CHECK(log.lines_dropped() == 2);
}

}  // namespace
}  // namespace troupe::keeper
