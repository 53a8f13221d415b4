// SPDX-License-Identifier: Apache-2.0
// Golden functions of sampling: temperature, top-k, top-p and chains of them, and the draw itself.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/log_softmax/log_softmax.h"
#include "kernels/sampling/sampling.h"
#include "tools/golden_runner/golden_check.h"

namespace troupe::golden {
namespace {

using kernels::SamplingRow;

void Set(const std::string& name, const nlohmann::json& value, SamplingRow& row) {
  if (name == "temperature") row.temperature = value.get<float>();
  if (name == "top_k") row.top_k = value.get<int64_t>();
  if (name == "top_p") row.top_p = value.get<double>();
}

bool Known(const std::string& name) { return name == "temperature" || name == "top_k" || name == "top_p"; }

// False, and a failure, for a cut that is not implemented.
bool Read(const nlohmann::json& config, SamplingRow& row, Check& check) {
  row.top_k_keeps_ties = true;  // as Transformers
  row.min_kept = config.value("min_tokens_to_keep", int64_t{1});
  if (!config.contains("chain")) {
    for (const auto& [name, value] : config.items()) Set(name, value, row);
    return true;
  }
  for (const nlohmann::json& step : config["chain"]) {
    const std::string name = step[0];
    check.That(Known(name), "no processor " + name);
    if (!Known(name)) return false;
    Set(name, step[1], row);
  }
  return true;
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
  SamplingRow row;
  if (!Read(one.config, row, check)) return;
  const bool float32_top_p =
      one.function == "sampling/top_p" && one.name.size() > 7 && one.name.substr(one.name.size() - 7) == "float32";
  const nlohmann::json& want = one.outputs.at("logprobs");
  for (size_t i = 0; i < want.size(); ++i) {
    CheckRow(Floats(one.inputs.at("logits")[i]), NumbersOf(want[i]), row, one.config.contains("ties"), float32_top_p,
             check);
  }
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

[[maybe_unused]] const bool kRegistered = Register("sampling/temperature", &RunCut) &&
                                          Register("sampling/top_k", &RunCut) && Register("sampling/top_p", &RunCut) &&
                                          Register("sampling/chain", &RunCut) &&
                                          Register("sampling/inverse_cdf", &RunInverseCdf);

}  // namespace
}  // namespace troupe::golden
