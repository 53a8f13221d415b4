// SPDX-License-Identifier: Apache-2.0
// Regular expressions of pre-tokenizers on PCRE2.
#include "actors/tokenizer/regex.h"

#include <pcre2.h>

#include "absl/strings/str_cat.h"
#include "actors/tokenizer/utf8.h"

namespace troupe {
namespace {

constexpr uint32_t kMatchStepsMax = 20'000'000;  // backtracking: seconds at worst, for hostile expressions
constexpr uint32_t kHeapKibMax = 64 * 1024;      // of one match
constexpr size_t kPatternBytesMax = 64 * 1024;

// PCRE2's \s has U+180E, which stopped being white space in Unicode 6.3; the other engines follow Unicode.
constexpr std::string_view kWhiteSpace =
    "\\t-\\r\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";

// Writes \s and \S out, also inside a character class (where only \s occurs).
std::string WithUnicodeSpaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      char next = pattern[++i];
      if (next == 's') {
        out += in_class ? std::string(kWhiteSpace) : absl::StrCat("[", std::string(kWhiteSpace), "]");
      } else if (next == 'S' && !in_class) {
        absl::StrAppend(&out, "[^", std::string(kWhiteSpace), "]");
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string Pcre2Message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;

absl::StatusOr<std::unique_ptr<Regex>> Regex::Compile(const std::string& pattern) {
  if (pattern.size() > kPatternBytesMax) return absl::InvalidArgumentError("a regular expression is too long");
  std::string translated = WithUnicodeSpaces(pattern);
  auto code = std::make_unique<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code->code == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the regular expression '", pattern, "' is not valid at ", offset, ": ", Pcre2Message(error)));
  }
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // without it matching is only slower
  code->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(code->context, kMatchStepsMax);
  pcre2_set_heap_limit(code->context, kHeapKibMax);
  return std::unique_ptr<Regex>(new Regex(std::move(code)));
}

absl::StatusOr<std::unique_ptr<Regex>> Regex::Literal(const std::string& text) {
  std::string pattern;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !isalnum(static_cast<unsigned char>(c))) pattern += '\\';
    pattern += c;
  }
  return Compile(pattern);
}

absl::Status Regex::FindAll(std::string_view text, std::vector<std::pair<size_t, size_t>>& matches) const {
  matches.clear();
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), &pcre2_match_data_free);
  size_t start = 0;
  while (start <= text.size()) {
    uint32_t options = PCRE2_NO_UTF_CHECK;
    auto match = [&](uint32_t more) {
      return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start, options | more,
                         data.get(), code_->context);
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return absl::ResourceExhaustedError(absl::StrCat("matching a regular expression failed: ", Pcre2Message(found)));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (range[1] < range[0]) return absl::InvalidArgumentError("a regular expression moves its match (\\K)");
    matches.emplace_back(range[0], range[1]);
    start = range[1];
    if (range[0] == range[1]) {  // step over one character, so that an empty match does not repeat
      start += start < text.size() ? ReadUtf8(text.substr(start)).length : 1;
    }
  }
  return absl::OkStatus();
}

}  // namespace troupe
