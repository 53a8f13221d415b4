// SPDX-License-Identifier: Apache-2.0
// Golden functions of sampling: penalties, temperature, top-k, top-p, min-p, chains of them, and the draw itself.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/log_softmax/log_softmax.h"
#include "kernels/sampling/penalties.h"
#include "kernels/sampling/sampling.h"
#include "tools/golden_runner/golden_check.h"

namespace troupe::golden {
namespace {

using kernels::Penalties;
using kernels::SamplingRow;

struct Chain {
  SamplingRow cuts{.top_k_keeps_ties = true};  // as Transformers
  Penalties penalties;
  size_t ignored = 0;  // tokens at the front of the history that are not penalised
};

// False for a step that is not implemented.
bool Set(const std::string& name, const nlohmann::json& value, Chain& chain) {
  if (name == "temperature") return chain.cuts.temperature = value.get<float>(), true;
  if (name == "top_k") return chain.cuts.top_k = value.get<int64_t>(), true;
  if (name == "top_p") return chain.cuts.top_p = value.get<double>(), true;
  if (name == "min_p") return chain.cuts.min_p = value.get<double>(), true;
  if (name == "min_tokens_to_keep") return chain.cuts.min_kept = value.get<int64_t>(), true;
  if (name == "repetition_penalty" || name == "penalty") return chain.penalties.repetition = value.get<float>(), true;
  if (name == "prompt_ignore_length") return chain.ignored = value.get<size_t>(), true;
  return name == "ties";
}

// Fails the case for what is not implemented. The steps are in the order in which ours are done.
Chain Read(const nlohmann::json& config, Check& check) {
  Chain chain;
  const nlohmann::json steps = config.value("chain", nlohmann::json::array());
  for (const nlohmann::json& step : steps) check.That(Set(step[0], step[1], chain), "no processor " + step[0].dump());
  for (const auto& [name, value] : config.items())
    check.That(name == "chain" || Set(name, value, chain), "no option " + name);
  return chain;
}

std::vector<int32_t> HistoryOf(const nlohmann::json& ids, size_t ignored) {
  std::vector<int32_t> history;
  for (size_t i = ignored; i < ids.size(); ++i) history.push_back(ids[i].get<int32_t>());
  return history;
}

void Penalise(const std::vector<int32_t>& history, const Penalties& penalties, std::vector<float>& logits) {
  kernels::ApplyPenalties(history.data(), static_cast<int64_t>(history.size()), penalties, logits.data(),
                          static_cast<int64_t>(logits.size()));
}

std::vector<float> Floats(const nlohmann::json& values) {
  const std::vector<double> numbers = NumbersOf(values);
  return {numbers.begin(), numbers.end()};
}

// The survivors and their log-probabilities; only how many survive where the reference's ties decide.
void CheckRow(const std::vector<float>& logits, const std::vector<double>& want, const SamplingRow& row, bool by_count,
              bool float32_top_p, Check& check) {
  const int64_t vocabulary = static_cast<int64_t>(logits.size());
  const kernels::SoftmaxStats stats = kernels::SoftmaxStatsOf(logits.data(), vocabulary, row.temperature);
  double total = 0;
  std::map<size_t, double> got;
  for (const kernels::Survivor& survivor :
       kernels::Filter(logits.data(), vocabulary, row, stats.max, stats.sum_exp, total)) {
    const bool lost = float32_top_p && survivor.term / total < 0x1p-150;  // rounds to nothing in the reference
    if (survivor.term > 0 && !lost) got[static_cast<size_t>(survivor.token)] = survivor.term;
  }
  size_t survivors = 0;
  for (size_t token = 0; token < want.size(); ++token) {
    const bool survives = std::isfinite(want[token]);
    survivors += survives ? 1 : 0;
    if (by_count) continue;
    check.That((got.count(token) > 0) == survives, "token " + std::to_string(token) + " survives differently");
    if (got.count(token) > 0 && survives) {
      check.Near("logprob", std::log(got[token] / total), want[token], {.rtol = 1e-5, .atol = 1e-5});
    }
  }
  check.That(got.size() == survivors, "another number of tokens survives");
}

void RunCut(const Case& one, Check& check) {
  const Chain chain = Read(one.config, check);
  const bool float32_top_p = one.function == "sampling/top_p" && one.name.ends_with("float32");
  const nlohmann::json& want = one.outputs.at("logprobs");
  for (size_t i = 0; i < want.size() && check.ok(); ++i) {
    std::vector<float> logits = Floats(one.inputs.at("logits")[i]);
    Penalise(HistoryOf(one.inputs.at("input_ids")[i], chain.ignored), chain.penalties, logits);
    CheckRow(logits, NumbersOf(want[i]), chain.cuts, one.config.contains("ties"), float32_top_p, check);
  }
}

// llama.cpp's: counts are over the last `window` tokens of the history.
void RunPenalties(const Case& one, Check& check) {
  const nlohmann::json& history = one.inputs.at("history");
  const size_t window = one.config.at("window");
  std::vector<float> logits = Floats(one.inputs.at("logits"));
  Penalise(HistoryOf(history, history.size() - std::min(window, history.size())),
           {.repetition = one.config.at("repetition_penalty"),
            .frequency = one.config.at("frequency_penalty"),
            .presence = one.config.at("presence_penalty")},
           logits);
  check.Near("logits", std::vector<double>(logits.begin(), logits.end()), NumbersOf(one.outputs.at("logits")),
             {.rtol = 1e-5, .atol = 1e-6});
  CheckRow(logits, NumbersOf(one.outputs.at("logprobs")), {}, false, false, check);
}

void RunInverseCdf(const Case& one, Check& check) {
  const std::vector<float> logits = Floats(one.inputs.at("logits"));
  std::vector<double> ids;
  for (double u : NumbersOf(one.inputs.at("u"))) {
    const SamplingRow row{.uniform = u};
    kernels::SampledToken token;
    kernels::SampleRows(logits.data(), 1, static_cast<int64_t>(logits.size()), &row, &token);
    ids.push_back(token.token);
  }
  check.Near("ids", ids, NumbersOf(one.outputs.at("ids")), {});
}

[[maybe_unused]] const bool kRegistered =
    Register("sampling/temperature", &RunCut) && Register("sampling/top_k", &RunCut) &&
    Register("sampling/top_p", &RunCut) && Register("sampling/min_p", &RunCut) &&
    Register("sampling/repetition_penalty", &RunCut) && Register("sampling/penalties", &RunPenalties) &&
    Register("sampling/chain", &RunCut) && Register("sampling/inverse_cdf", &RunInverseCdf);

}  // namespace
}  // namespace troupe::golden
