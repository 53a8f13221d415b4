// SPDX-License-Identifier: Apache-2.0
// troupe generate, export: done by the worker binary, which has LibTorch.
#include "tools/cli/worker_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "runtime/env/file.h"
#include "runtime/env/process.h"
#include "tools/cli/commands.h"
#include "tools/cli/head_client.h"

namespace troupe::cli {
namespace {

// Becomes the worker binary, which reads the same line.
int Become(std::vector<std::string> arguments) {
  absl::StatusOr<std::string> program = SiblingProgram("troupe_worker");
  if (!program.ok()) return Report(program.status());
  std::vector<char*> argv = {program->data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(program->c_str(), argv.data());
  std::cerr << "troupe: cannot start " << *program << ": " << strerror(errno) << "\n";
  return kJobFailed;
}

}  // namespace

absl::StatusOr<std::string> SiblingProgram(const std::string& name) {
  std::string program = (std::filesystem::path(OwnProgramPath()).parent_path() / name).string();
  if (!FileExists(program)) {
    return absl::NotFoundError("the program " + name + " is not beside troupe (" + program +
                               "); build it with tools/build");
  }
  return program;
}

int GenerateCommand(const Options& options) { return Become(options.typed); }

int ExportCommand(const Options& options) { return Become(options.typed); }

}  // namespace troupe::cli
