// SPDX-License-Identifier: Apache-2.0
// What `generate` and `export` are told. One grammar for two programs: the command line, which has no LibTorch, checks
// by it what was typed and passes it on; the worker binary reads the same and does it.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace troupe {

struct GenerateOptions {
  std::string model;  // A GGUF file, a Hugging Face folder or a run's folder.
  std::string prompt;
  bool raw = false;   // The prompt as it is; else
  bool chat = false;  // through the model's chat template, said or not.
  int64_t max_tokens = 128;
  double temperature = 0;  // 0: greedy
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  uint64_t seed = 1;
  int threads = 2;
};

struct ExportOptions {
  std::string checkpoint;  // Or a run's folder.
  std::string to;
  std::string dtype = "float32";
};

// Add arguments and options to a command; `options` outlives its parsing.
void AddGenerateOptions(CLI::App& command, GenerateOptions& options);
void AddExportOptions(CLI::App& command, ExportOptions& options);

}  // namespace troupe
