// SPDX-License-Identifier: Apache-2.0
// Every case in //tests/golden of a function that is implemented.
#include <cmath>
#include <map>
#include <string>

#include "catch2/catch.hpp"
#include "tools/golden_runner/golden_check.h"
#include "tools/golden_runner/register_functions.h"

namespace troupe::golden {
namespace {

// Runs the known functions of a file; how many cases of each ran.
std::map<std::string, int> RunFile(const std::string& name) {
  RegisterFunctions();
  std::map<std::string, int> ran;
  const std::vector<Case> cases = LoadFile("tests/golden/" + name, "tests/golden/suspect.json").value();
  for (const Case& one : cases) {
    const auto function = Functions().find(one.function);
    if (function == Functions().end()) continue;
    Check check;
    function->second(one, check);
    INFO(one.name << ": " << check.failure());
    CHECK(check.ok());
    ++ran[one.function];
  }
  return ran;
}

}  // namespace

TEST_CASE("Golden: advantages and masked statistics", "[golden]") {
  std::map<std::string, int> ran = RunFile("advantages.json");
  CHECK(ran["gae"] == 42);
  CHECK(ran["grpo"] == 28);
  CHECK(ran["remax"] == 14);
  CHECK(ran["rloo"] == 14);
  CHECK(ran["reinforce_plus_plus"] == 28);
  CHECK(ran["masked_whiten"] == 19);
}

TEST_CASE("Golden: losses, KL and aggregation, with gradients", "[golden]") {
  std::map<std::string, int> ran = RunFile("policy_loss.json");
  CHECK(ran["policy_loss/vanilla"] == 53);
  CHECK(ran["kl_penalty"] == 56);
  CHECK(ran["agg_loss"] == 46);
  CHECK(ran["entropy_loss"] == 10);
}

TEST_CASE("Golden: AdamW, clipping and schedules", "[golden]") {
  std::map<std::string, int> ran = RunFile("optim.json");
  CHECK(ran["optim/AdamW"] == 18);
  CHECK(ran["optim/clip_grad_norm_"] == 6);
  CHECK(ran["schedule/cosine"] == 4);
}

TEST_CASE("Golden: penalties, cuts, chains of them and the draw", "[golden]") {
  std::map<std::string, int> ran = RunFile("sampling.json");
  CHECK(ran["sampling/top_p"] == 84);
  CHECK(ran["sampling/min_p"] == 48);
  CHECK(ran["sampling/penalties"] == 40);
  CHECK(ran["sampling/chain"] == 36);
}

TEST_CASE("Golden: Llama models: logits, greedy tokens, log-probabilities, gradients and AdamW steps", "[golden]") {
  std::map<std::string, int> ran = RunFile("models.json");
  CHECK(ran["model/llama"] == 10);
}

TEST_CASE("Golden: a wrong number is noticed", "[golden]") {
  Check check;
  check.Near("x", 1.0, 1.0 + 1e-8, {.rtol = 1e-9});
  CHECK_FALSE(check.ok());
  Check nan;
  nan.Near("x", std::nan(""), 1.0, {.rtol = 1, .atol = 1});
  CHECK_FALSE(nan.ok());
}

}  // namespace troupe::golden
