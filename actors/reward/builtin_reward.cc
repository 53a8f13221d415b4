// SPDX-License-Identifier: Apache-2.0
// exact_match, regex and numeric: what a response says is taken out of it and compared with the answer.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "actors/reward/reward_function.h"
#include "runtime/base/shown_text.h"

namespace troupe {
namespace {

// Steps of one match: a pattern that backtracks without end gives no match instead of a stuck worker.
constexpr uint32_t kMatchStepsMax = 1'000'000;

constexpr char kNumberPattern[] = R"([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?)";

std::string_view Trim(std::string_view text) {
  constexpr char kSpace[] = " \t\r\n\f\v";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

class Pattern {
 public:
  static absl::StatusOr<Pattern> Compile(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    std::shared_ptr<pcre2_code> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                                   PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &error, &offset, nullptr),
                                     pcre2_code_free);
    if (code == nullptr) {
      unsigned char text[256];
      pcre2_get_error_message(error, text, sizeof(text));
      return absl::InvalidArgumentError("roles.reward.pattern '" + pattern + "' at character " +
                                        std::to_string(offset) + ": " + reinterpret_cast<char*>(text));
    }
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    return Pattern(std::move(code));
  }

  // The first or last match: its first group when the pattern has one, else all of it.
  std::optional<std::string_view> Find(std::string_view text, bool last) const {
    std::optional<std::string_view> found;
    for (size_t at = 0; at <= text.size();) {
      int count = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, 0, data_.get(),
                              limits_.get());
      if (count <= 0) return found;
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data_.get());
      size_t group = count > 1 && span[2] != PCRE2_UNSET ? 2 : 0;
      found = text.substr(span[group], span[group + 1] - span[group]);
      if (!last) return found;
      at = span[1] > span[0] ? span[1] : span[1] + 1;
    }
    return found;
  }

 private:
  explicit Pattern(std::shared_ptr<pcre2_code> code)
      : code_(std::move(code)),
        data_(pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free),
        limits_(pcre2_match_context_create(nullptr), pcre2_match_context_free) {
    pcre2_set_match_limit(limits_.get(), kMatchStepsMax);
  }
  std::shared_ptr<pcre2_code> code_;
  std::shared_ptr<pcre2_match_data> data_;
  std::shared_ptr<pcre2_match_context> limits_;
};

std::optional<double> NumberOf(std::string_view text) {
  std::string digits;
  for (char c : Trim(text)) {
    if (c != ',') digits += c;
  }
  char* end = nullptr;
  double value = std::strtod(digits.c_str(), &end);
  if (digits.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

class BuiltinReward final : public RewardScorer {
 public:
  BuiltinReward(std::string function, bool last, std::optional<Pattern> pattern)
      : function_(std::move(function)), last_(last), pattern_(std::move(pattern)) {}

  std::vector<RewardOutcome> Score(absl::Span<const RewardInput> inputs) override {
    std::vector<RewardOutcome> outcomes(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::optional<std::string_view> found = Find(inputs[i].response);
      if (!found) continue;
      outcomes[i].score = IsRight(*found, inputs[i].answer) ? 1 : 0;
      outcomes[i].pred = ShownText(*found, kPredBytesMax);
    }
    return outcomes;
  }

 private:
  // What the response says the answer is.
  std::optional<std::string_view> Find(std::string_view response) const {
    return pattern_ ? pattern_->Find(response, last_) : Trim(response);
  }
  bool IsRight(std::string_view found, std::string_view answer) const {
    if (function_ == "exact_match") return found == Trim(answer);
    if (function_ == "regex") return found == answer;
    std::optional<double> said = NumberOf(found), right = NumberOf(answer);
    return said && right && std::abs(*said - *right) <= 1e-6 * std::max(1.0, std::abs(*right));
  }

  std::string function_;
  bool last_;
  std::optional<Pattern> pattern_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RewardScorer>> MakeBuiltinReward(const RewardFunction& function) {
  bool last = function.match == "last";
  if (function.function == "exact_match") return std::make_unique<BuiltinReward>(function.function, last, std::nullopt);
  if (function.function != "regex" && function.function != "numeric") {
    return absl::InvalidArgumentError("roles.reward.function '" + function.function +
                                      "' is none of exact_match, regex, numeric");
  }
  absl::StatusOr<Pattern> pattern = Pattern::Compile(function.function == "regex" ? function.pattern : kNumberPattern);
  if (!pattern.ok()) return pattern.status();
  return std::make_unique<BuiltinReward>(function.function, last, *std::move(pattern));
}

}  // namespace troupe
