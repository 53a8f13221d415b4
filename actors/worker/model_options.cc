// SPDX-License-Identifier: Apache-2.0
#include "actors/worker/model_options.h"

#include <CLI/CLI.hpp>

#include "actors/worker/number_within.h"

namespace troupe {
namespace {

constexpr double kThreadsMax = 4096;

}  // namespace

void AddGenerateOptions(CLI::App& command, GenerateOptions& o) {
  command.add_option("MODEL", o.model, "a GGUF file or a Hugging Face folder")->required();
  command.add_option("PROMPT", o.prompt, "the prompt")->required();
  command.add_option("--max-tokens", o.max_tokens, "longest answer (128)")->check(NumberWithin(1, kWholeMax, true));
  command.add_option("--temperature", o.temperature, "0, the default: greedy")
      ->check(NumberWithin(0, kWholeMax, false));
  command.add_option("--top-k", o.top_k, "only the likeliest K (0: all)")->check(NumberWithin(0, kWholeMax, true));
  command.add_option("--top-p", o.top_p, "only the likeliest of this probability (1: all)")
      ->check(NumberWithin(0, 1, false));
  command.add_option("--seed", o.seed, "of the random numbers (1)")->check(NumberWithin(0, kWholeMax, true));
  command.add_option("--threads", o.threads, "processors to use (2)")->check(NumberWithin(1, kThreadsMax, true));
  CLI::Option* raw = command.add_flag("--raw", o.raw, "the prompt as it is");
  command.add_flag("--chat", o.chat, "the prompt through the model's chat template (default)")->excludes(raw);
}

void AddExportOptions(CLI::App& command, ExportOptions& o) {
  command.add_option("CHECKPOINT", o.checkpoint, "a checkpoint's folder")->required();
  command.add_option("--to", o.to, "the folder to write")->required();
  command.add_option("--dtype", o.dtype, "float32, bfloat16 or float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
}

}  // namespace troupe
