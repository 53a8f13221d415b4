// SPDX-License-Identifier: Apache-2.0
// Python's functions on strings that filters and methods share.
#include "actors/tokenizer/jinja/text_functions.h"

#include <utf8proc.h>

#include <algorithm>

#include "actors/tokenizer/jinja/value.h"
#include "actors/tokenizer/utf8.h"

namespace troupe::jinja {
namespace {

char32_t Upper(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }
char32_t Lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }

bool IsLetter(char32_t c) {
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

std::vector<std::string> SplitAtSpace(std::string_view text, int64_t count, bool from_right) {
  std::u32string characters = ToCharacters(text);
  if (from_right) std::reverse(characters.begin(), characters.end());
  std::vector<std::string> out;
  size_t at = 0;
  auto skip = [&](bool space) {
    while (at < characters.size() && IsWhiteSpace(characters[at]) == space) ++at;
  };
  for (skip(true); at < characters.size(); skip(true)) {
    size_t begin = at;
    if (count >= 0 && static_cast<int64_t>(out.size()) == count) {
      at = characters.size();
      while (at > begin && IsWhiteSpace(characters[at - 1])) --at;
    } else {
      skip(false);
    }
    std::u32string word = characters.substr(begin, at - begin);
    if (from_right) std::reverse(word.begin(), word.end());
    out.push_back(FromCharacters(word));
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

std::string ChangeCase(std::string_view text, Case to) {
  std::u32string characters = ToCharacters(text);
  bool after_letter = false;
  for (size_t i = 0; i < characters.size(); ++i) {
    char32_t c = characters[i];
    bool upper = to == Case::kUpper || (to == Case::kTitle && !after_letter) || (to == Case::kCapital && i == 0);
    after_letter = IsLetter(c);
    characters[i] = upper ? Upper(c) : Lower(c);
  }
  return FromCharacters(characters);
}

std::string Strip(std::string_view text, std::string_view set, bool left, bool right) {
  std::u32string characters = ToCharacters(text), chosen = ToCharacters(set);
  auto strip = [&](char32_t c) {
    return set.empty() ? IsWhiteSpace(c) || (c >= 0x1C && c <= 0x1F) : chosen.find(c) != chosen.npos;
  };
  size_t begin = 0, end = characters.size();
  while (left && begin < end && strip(characters[begin])) ++begin;
  while (right && end > begin && strip(characters[end - 1])) --end;
  return FromCharacters(std::u32string_view(characters).substr(begin, end - begin));
}

std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to, int64_t count,
                        size_t bytes_max) {
  std::string out;
  size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    // An empty `from` is found before each character and at the end.
    size_t found =
        from.empty() ? (at <= text.size() && (done == 0 || at < text.size()) ? at : text.npos) : text.find(from, at);
    if (found == text.npos) break;
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
    if (from.empty()) {
      if (at == text.size()) break;
      size_t length = ReadUtf8(text.substr(at)).length;
      out.append(text.substr(at, length));
      at += length;
      if (at == text.size() && (count < 0 || done + 1 < count)) {
        out.append(to);
        break;
      }
    }
    if (out.size() > bytes_max) throw TemplateError("a string is too long");
  }
  return out.append(text.substr(std::min(at, text.size())));
}

std::vector<std::string> SplitText(std::string_view text, std::string_view separator, int64_t count, bool from_right) {
  if (separator.empty()) return SplitAtSpace(text, count, from_right);
  std::vector<std::string> out;
  while (count < 0 || static_cast<int64_t>(out.size()) < count) {
    size_t found = from_right ? text.rfind(separator) : text.find(separator);
    if (found == text.npos) break;
    if (from_right) {
      out.emplace_back(text.substr(found + separator.size()));
      text = text.substr(0, found);
    } else {
      out.emplace_back(text.substr(0, found));
      text.remove_prefix(found + separator.size());
    }
  }
  out.emplace_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string> out;
  while (!text.empty()) {
    size_t end = text.find_first_of("\n\r\v\f");
    size_t length = end == text.npos ? 0 : text.substr(end, 2) == "\r\n" ? 2 : 1;
    end = std::min(end, text.size());
    out.emplace_back(text.substr(0, keep_ends ? end + length : end));
    text.remove_prefix(end + length);
  }
  return out;
}

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace troupe::jinja
