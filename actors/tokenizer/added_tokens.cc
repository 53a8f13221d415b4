// SPDX-License-Identifier: Apache-2.0
// Finding added tokens in text, with the options that tokenizer.json gives them.
#include "actors/tokenizer/added_tokens.h"

#include <algorithm>

#include "actors/tokenizer/utf8.h"

namespace troupe {
namespace {

// The first byte of the last character of `text`, which is UTF-8 and not empty.
size_t LastCharacter(std::string_view text) {
  size_t i = text.size() - 1;
  while (i > 0 && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) --i;
  return i;
}

bool EndsWithWord(std::string_view text) {
  return !text.empty() && IsWordCharacter(ReadUtf8(text.substr(LastCharacter(text))).code);
}

bool StartsWithWord(std::string_view text) { return !text.empty() && IsWordCharacter(ReadUtf8(text).code); }

// Where the white space at the end of `text` begins.
size_t TrailingSpace(std::string_view text) {
  while (!text.empty()) {
    size_t last = LastCharacter(text);
    if (!IsWhiteSpace(ReadUtf8(text.substr(last)).code)) break;
    text = text.substr(0, last);
  }
  return text.size();
}

size_t LeadingSpace(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    Utf8Character character = ReadUtf8(text.substr(length));
    if (!IsWhiteSpace(character.code)) break;
    length += character.length;
  }
  return length;
}

}  // namespace

void AddedTokenMatcher::Add(const AddedToken& token) {
  if (token.content.empty()) return;
  uint32_t node = 0;
  for (char byte : token.content) {
    auto [edge, added] = nodes_[node].next.try_emplace(byte, static_cast<uint32_t>(nodes_.size()));
    uint32_t next = edge->second;
    if (added) nodes_.emplace_back();
    if (node == 0) root_[static_cast<unsigned char>(byte)] = next;
    node = next;
  }
  if (nodes_[node].token >= 0) return;  // the first of two with the same text
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

int32_t AddedTokenMatcher::Longest(std::string_view text) const {
  int32_t longest = -1;
  uint32_t node = root_[static_cast<unsigned char>(text[0])];
  for (size_t i = 1; node != 0; ++i) {
    if (nodes_[node].token >= 0) longest = nodes_[node].token;
    if (i == text.size()) break;
    auto edge = nodes_[node].next.find(text[i]);
    node = edge == nodes_[node].next.end() ? 0 : edge->second;
  }
  return longest;
}

void AddedTokenMatcher::Split(std::string_view text, bool with_special, std::vector<AddedTokenPart>& parts) const {
  size_t done = 0;  // text before this is in `parts`
  size_t at = 0;
  while (at < text.size()) {
    int32_t found = Longest(text.substr(at));
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found)];
    size_t begin = at, end = at + token.content.size();
    at = end;
    if (!with_special && token.special) continue;
    if (token.single_word && (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end)))) continue;
    if (begin < done) continue;  // white space that the token before took
    if (token.lstrip) begin = std::max(done, TrailingSpace(text.substr(0, begin)));
    if (token.rstrip) end += LeadingSpace(text.substr(end));
    if (begin > done) parts.push_back({-1, text.substr(done, begin - done)});
    parts.push_back({token.id, text.substr(begin, end - begin)});
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) parts.push_back({-1, text.substr(done)});
}

}  // namespace troupe
