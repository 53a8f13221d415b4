// SPDX-License-Identifier: Apache-2.0
// Cuts a template into text and tokens.
#include "actors/tokenizer/jinja/lexer.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "actors/tokenizer/jinja/value.h"
#include "actors/tokenizer/utf8.h"

namespace troupe::jinja {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";

// Templates are written with any kind of line end; one at the very end is dropped, as Jinja does by default.
std::string NormaliseLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) {
      size_t tag = NextTag();
      ReadText(tag);
      if (tag == source_.size()) break;
      if (source_[tag + 1] == '#') {
        ReadComment();
      } else {
        ReadTag(source_[tag + 1] == '{');
      }
    }
    Push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const { throw TemplateError(what, line_); }

  void Push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  std::string_view Rest() const { return std::string_view(source_).substr(at_); }

  void Advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }

  // The offset of the next "{{", "{%" or "{#", or the end.
  size_t NextTag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return source_.size();
  }

  // Text up to `tag`, with white space removed as the tags on both sides ask.
  void ReadText(size_t tag) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    bool at_line_start = at_ == 0 || source_[at_ - 1] == '\n';
    size_t begin = 0;
    if (strip_after_) {
      begin = std::min(text.find_first_not_of(kSpace), text.size());
    } else if (trim_newline_after_ && !text.empty() && text[0] == '\n') {
      begin = 1;
    }
    at_line_start = at_line_start || begin > 0;  // what was removed ended a line, or nothing is left of it
    std::string_view kept = text.substr(begin);
    if (tag < source_.size()) {
      char control = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      if (control == '-') {
        kept = kept.substr(0, kept.find_last_not_of(kSpace) + 1);
      } else if (source_[tag + 1] != '{' && control != '+') {
        kept = WithoutIndent(kept, at_line_start);
      }
    }
    strip_after_ = trim_newline_after_ = false;
    if (!kept.empty()) Push(TokenKind::kText, std::string(kept));
    Advance(tag - at_);
  }

  // lstrip_blocks: blanks between the line's beginning and a block tag.
  static std::string_view WithoutIndent(std::string_view text, bool at_line_start) {
    size_t last = text.find_last_not_of(" \t");
    if (last == text.npos) return at_line_start ? std::string_view() : text;
    return text[last] == '\n' ? text.substr(0, last + 1) : text;
  }

  void ReadComment() {
    size_t end = source_.find("#}", at_ + 2);
    if (end == source_.npos) Fail("a comment is not closed");
    strip_after_ = source_[end - 1] == '-' && end > at_ + 2;
    trim_newline_after_ = true;
    Advance(end + 2 - at_);
  }

  void ReadTag(bool output) {
    Push(output ? TokenKind::kOpenOutput : TokenKind::kOpenBlock, "");
    Advance(2);
    if (!Rest().empty() && (Rest()[0] == '-' || Rest()[0] == '+')) Advance(1);
    if (!output && IsRaw()) return ReadRaw();
    int brackets = 0;
    std::string_view close = output ? "}}" : "%}";
    while (true) {
      while (!Rest().empty() && kSpace.find(Rest()[0]) != kSpace.npos) Advance(1);
      if (Rest().empty()) Fail(output ? "'{{' is not closed" : "'{%' is not closed");
      bool control = (Rest()[0] == '-' || Rest()[0] == '+') && Rest().substr(1, 2) == close;
      if (control || (Rest().substr(0, 2) == close && (brackets == 0 || !output))) {
        strip_after_ = control && Rest()[0] == '-';
        trim_newline_after_ = !output && !control;
        Advance(control ? 3 : 2);
        return Push(TokenKind::kClose, "");
      }
      if (Rest()[0] == '{') ++brackets;
      if (Rest()[0] == '}') --brackets;
      ReadToken();
    }
  }

  bool IsRaw() const {
    std::string_view rest = Rest();
    rest.remove_prefix(std::min(rest.find_first_not_of(kSpace), rest.size()));
    return rest.substr(0, 3) == "raw" && (rest.size() == 3 || !IsNamePart(rest[3]));
  }

  // {% raw %} text {% endraw %}: the tags vanish and the text stays.
  void ReadRaw() {
    tokens_.pop_back();
    size_t begin = source_.find("%}", at_);
    size_t end = begin == source_.npos ? begin : source_.find("endraw", begin);
    size_t open = end == source_.npos ? end : source_.rfind("{%", end);
    size_t close = end == source_.npos ? end : source_.find("%}", end);
    if (close == source_.npos || open < begin) Fail("'raw' is not closed");
    Push(TokenKind::kText, source_.substr(begin + 2, open - begin - 2));
    trim_newline_after_ = true;
    Advance(close + 2 - at_);
  }

  void ReadToken() {
    char c = Rest()[0];
    if (IsNameStart(c)) {
      size_t length = 1;
      while (length < Rest().size() && IsNamePart(Rest()[length])) ++length;
      Push(TokenKind::kName, std::string(Rest().substr(0, length)));
      return Advance(length);
    }
    if (IsDigit(c)) return ReadNumber();
    if (c == '\'' || c == '"') return ReadString(c);
    for (std::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (Rest().substr(0, 2) == two) {
        Push(TokenKind::kOperator, std::string(two));
        return Advance(2);
      }
    }
    if (std::string_view("+-*/%~<>=()[]{}.,:|").find(c) == std::string_view::npos) {
      Fail("unexpected '" + std::string(1, c) + "'");
    }
    Push(TokenKind::kOperator, std::string(1, c));
    Advance(1);
  }

  void ReadNumber() {
    size_t length = 0;
    bool is_float = false;
    std::string_view rest = Rest();
    auto digits = [&] {
      while (length < rest.size() && (IsDigit(rest[length]) || rest[length] == '_')) ++length;
    };
    digits();
    if (length + 1 < rest.size() && rest[length] == '.' && IsDigit(rest[length + 1])) {
      is_float = true;
      ++length;
      digits();
    }
    if (length < rest.size() && (rest[length] == 'e' || rest[length] == 'E')) {
      size_t exponent = length + 1;
      if (exponent < rest.size() && (rest[exponent] == '+' || rest[exponent] == '-')) ++exponent;
      if (exponent < rest.size() && IsDigit(rest[exponent])) {
        is_float = true;
        length = exponent;
        digits();
      }
    }
    std::string text(rest.substr(0, length));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    Push(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
    Advance(length);
  }

  void ReadString(char quote) {
    std::string text;
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] != '\\') {
        text += source_[i++];
      } else {
        i = ReadEscape(i + 1, text);
      }
    }
    if (i >= source_.size()) Fail("a string is not closed");
    Push(TokenKind::kString, std::move(text));
    Advance(i + 1 - at_);
  }

  // `i` is after the backslash; returns where the escape ends. Python's escapes; an unknown one stays as it is.
  size_t ReadEscape(size_t i, std::string& text) const {
    if (i >= source_.size()) return i;
    constexpr std::string_view kNames = "ntrbfav\\'\"";
    constexpr std::string_view kValues = "\n\t\r\b\f\a\v\\'\"";
    size_t simple = kNames.find(source_[i]);
    if (simple != kNames.npos) {
      text += kValues[simple];
      return i + 1;
    }
    if (source_[i] == '\n') return i + 1;
    size_t digits = source_[i] == 'x' ? 2 : source_[i] == 'u' ? 4 : source_[i] == 'U' ? 8 : 0;
    uint32_t code = 0;
    for (size_t k = 1; k <= digits; ++k) {
      if (i + k >= source_.size() || !std::isxdigit(static_cast<unsigned char>(source_[i + k])))
        Fail("a broken escape");
      code = code * 16 + static_cast<uint32_t>(std::stoi(std::string(1, source_[i + k]), nullptr, 16));
    }
    if (digits == 0) {
      text += '\\';
      text += source_[i];
      return i + 1;
    }
    bool is_character = code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
    AppendUtf8(is_character ? code : kReplacementCharacter, text);
    return i + 1 + digits;
  }

  std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool strip_after_ = false;         // the last tag ended with "-%}"
  bool trim_newline_after_ = false;  // the last tag was a block or a comment
};

}  // namespace

std::vector<Token> Tokenise(std::string_view source) { return Lexer(NormaliseLines(source)).Run(); }

}  // namespace troupe::jinja
