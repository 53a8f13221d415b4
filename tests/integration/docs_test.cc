// SPDX-License-Identifier: Apache-2.0
// The guides show what the examples are: every C++ or CMake block of docs/actors.md and docs/embedding.md is a region
// of an example, word for word, and the examples print what their comments say.
#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/env/file.h"

namespace troupe {
namespace {

std::string Read(const std::string& path) { return ReadFile(path, 1 << 20).value(); }

// The lines between "// [name]" and "// [/name]", without the indentation that all of them share. CMake: "# [name]".
std::string Region(const std::string& path, const std::string& name) {
  const std::string source = Read(path);
  const std::string comment = path.find("CMakeLists") == std::string::npos ? "// " : "# ";
  std::vector<std::string> lines;
  std::istringstream in(source);
  bool inside = false, closed = false;
  for (std::string line; std::getline(in, line) && !closed;) {
    std::string text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    closed = inside && text == comment + "[/" + name + "]";
    if (inside && !closed) lines.push_back(line);
    inside = inside || text == comment + "[" + name + "]";
  }
  REQUIRE(closed);
  size_t indent = 1000;
  for (const std::string& line : lines) {
    if (!line.empty()) indent = std::min(indent, line.find_first_not_of(' '));
  }
  std::string region;
  for (const std::string& line : lines) region += (line.empty() ? line : line.substr(indent)) + "\n";
  return region;
}

TEST_CASE("Guide: every C++ block is a region of an example that is compiled", "[docs]") {
  std::string guide = Read("docs/actors.md") + Read("docs/embedding.md");
  static const std::regex kBlock(R"((<!-- (\S+) \[(\w+)\] -->\n)?```(?:cpp|cmake)\n([^`]*)```)");
  int blocks = 0;
  for (std::sregex_iterator it(guide.begin(), guide.end(), kBlock), end; it != end; ++it, ++blocks) {
    INFO(it->str());
    REQUIRE(it->str(2) != "");
    CHECK(it->str(4) == Region(it->str(2), it->str(3)));
  }
  CHECK(blocks >= 10);
}

std::string Run(const std::string& program) {
  FILE* pipe = popen(program.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> buffer;
  while (size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  int status = pclose(pipe);
  INFO(output);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return output;
}

TEST_CASE("Examples: they run and print what they say", "[docs]") {
  CHECK(Run("examples/actors/hello") == "15\n16\n18\n21\ndivision by zero\nlocal/counter/0#1 died: no longer needed\n");
  CHECK(Run("examples/actors/parameter_server") == "converges\n");
  CHECK(Run("examples/actors/map_group") == "a 4\ndaisy 1\nis 3\nnot 1\nrose 3\n");
  CHECK(Run("examples/actors/streaming") == "101\n103\n107\n");
  CHECK(Run("examples/actors/supervised_tree") ==
        "bread in life 1\nINTERNAL: the method threw: cannot digest poison\nstopped: the work is done\n"
        "0 actors left\n");
  // Installed as a program with processes is: the keeper stands beside it.
  std::string folder = MakeTemporaryDirectory("docs-test-").value();
  std::filesystem::copy_file("examples/actors/processes", folder + "/processes");
  std::filesystem::copy_file("examples/actors/objects", folder + "/objects");
  std::filesystem::copy_file("tools/keeper/troupe_keeper", folder + "/troupe_keeper");
  CHECK(Run(folder + "/processes") == "in another process\n7\n");
  CHECK(Run(folder + "/objects") == "524288\nall read\n");
  CHECK(RemoveTree(folder).ok());
}

}  // namespace
}  // namespace troupe
