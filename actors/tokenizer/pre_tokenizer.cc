// SPDX-License-Identifier: Apache-2.0
// How a tokenizer cuts text into pieces: expressions, digits, byte-level, and sequences of these.
#include "actors/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/tokenizer/regex.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using Json = nlohmann::json;

// GPT-2's expression. Source: Radford et al. 2019, encoder.py.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct Part {
  size_t begin, end;
  bool match;
};

// The matches of an expression and what lies between them, in order.
absl::Status FindParts(const Regex& regex, std::string_view text, bool invert, std::vector<Part>& parts) {
  std::vector<std::pair<size_t, size_t>> matches;
  TROUPE_RETURN_IF_ERROR(regex.FindAll(text, matches));
  parts.clear();
  size_t end = 0;
  for (const auto& match : matches) {
    if (match.first > end) parts.push_back({end, match.first, invert});
    parts.push_back({match.first, match.second, !invert});
    end = match.second;
  }
  if (end < text.size()) parts.push_back({end, text.size(), invert});
  return absl::OkStatus();
}

void MergeParts(Behavior behavior, std::vector<Part>& parts) {
  std::vector<Part> out;
  switch (behavior) {
    case Behavior::kIsolated:
      return;
    case Behavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.match) out.push_back(part);
      }
      break;
    case Behavior::kContiguous:
      for (const Part& part : parts) {
        if (!out.empty() && out.back().match == part.match) {
          out.back().end = part.end;
        } else {
          out.push_back(part);
        }
      }
      break;
    case Behavior::kMergedWithPrevious:
      for (size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].match && i > 0 && !parts[i - 1].match) {
          out.back().end = parts[i].end;
        } else {
          out.push_back(parts[i]);
        }
      }
      break;
    case Behavior::kMergedWithNext:
      for (size_t i = parts.size(); i-- > 0;) {
        if (parts[i].match && i + 1 < parts.size() && !parts[i + 1].match) {
          out.back().begin = parts[i].begin;
        } else {
          out.push_back(parts[i]);
        }
      }
      std::reverse(out.begin(), out.end());
      break;
  }
  parts = std::move(out);
}

// Split, Digits, and the expression of ByteLevel.
class RegexSplit : public PreTokenizer {
 public:
  RegexSplit(std::unique_ptr<Regex> regex, Behavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  absl::Status Split(TextPieces& pieces) const override {
    std::vector<std::string_view> out;
    std::vector<Part> parts;
    for (std::string_view piece : pieces.views) {
      TROUPE_RETURN_IF_ERROR(FindParts(*regex_, piece, invert_, parts));
      MergeParts(behavior_, parts);
      for (const Part& part : parts) {
        if (part.end > part.begin) out.push_back(piece.substr(part.begin, part.end - part.begin));
      }
    }
    pieces.views = std::move(out);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Regex> regex_;
  Behavior behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, std::unique_ptr<PreTokenizer> split)
      : add_prefix_space_(add_prefix_space), split_(std::move(split)) {}

  bool IsByteLevel() const override { return true; }

  absl::Status Split(TextPieces& pieces) const override {
    if (add_prefix_space_) {
      for (std::string_view& piece : pieces.views) {
        if (piece.front() != ' ') piece = pieces.owned.emplace_back(" " + std::string(piece));
      }
    }
    return split_ == nullptr ? absl::OkStatus() : split_->Split(pieces);
  }

 private:
  bool add_prefix_space_;
  std::unique_ptr<PreTokenizer> split_;  // null: pieces stay whole
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}

  bool IsByteLevel() const override {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->IsByteLevel(); });
  }

  absl::Status Split(TextPieces& pieces) const override {
    for (const auto& step : steps_) TROUPE_RETURN_IF_ERROR(step->Split(pieces));
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

absl::StatusOr<Behavior> ParseBehavior(const std::string& name) {
  constexpr std::pair<const char*, Behavior> kNames[] = {{"Removed", Behavior::kRemoved},
                                                         {"Isolated", Behavior::kIsolated},
                                                         {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                         {"MergedWithNext", Behavior::kMergedWithNext},
                                                         {"Contiguous", Behavior::kContiguous}};
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.json: the split behavior '", name, "' is not supported"));
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> MakeRegexSplit(absl::StatusOr<std::unique_ptr<Regex>> regex,
                                                             Behavior behavior, bool invert) {
  if (!regex.ok()) return Annotate(regex.status(), "tokenizer.json: pre_tokenizer");
  return std::make_unique<RegexSplit>(*std::move(regex), behavior, invert);
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> ParseSplit(const Json& json) {
  TROUPE_ASSIGN_OR_RETURN(Behavior behavior, ParseBehavior(json.at("behavior").get<std::string>()));
  const Json& pattern = json.at("pattern");
  bool is_regex = pattern.is_object() && pattern.contains("Regex");
  return MakeRegexSplit(is_regex ? Regex::Compile(pattern.at("Regex").get<std::string>())
                                 : Regex::Literal(pattern.at("String").get<std::string>()),
                        behavior, json.value("invert", false));
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> ParseByteLevel(const Json& json) {
  std::unique_ptr<PreTokenizer> split;
  if (json.value("use_regex", true)) {
    TROUPE_ASSIGN_OR_RETURN(split, MakeRegexSplit(Regex::Compile(kGpt2Pattern), Behavior::kIsolated, false));
  }
  return std::make_unique<ByteLevel>(json.value("add_prefix_space", true), std::move(split));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::FromJson(const Json& json) {
  if (json.is_null()) return std::make_unique<Sequence>(std::vector<std::unique_ptr<PreTokenizer>>());
  std::string type = json.at("type").get<std::string>();
  if (type == "ByteLevel") return ParseByteLevel(json);
  if (type == "Split") return ParseSplit(json);
  if (type == "Digits") {
    Behavior behavior = json.value("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous;
    return MakeRegexSplit(Regex::Compile("\\p{N}"), behavior, false);
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<PreTokenizer>> steps;
    for (const Json& step : json.at("pretokenizers")) {
      TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<PreTokenizer> pre_tokenizer, FromJson(step));
      steps.push_back(std::move(pre_tokenizer));
    }
    return std::make_unique<Sequence>(std::move(steps));
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.json: the pre-tokenizer '", type,
                                               "' is not supported; supported: ByteLevel, Split, Digits, Sequence"));
}

}  // namespace troupe
