// SPDX-License-Identifier: Apache-2.0
// Tokens that stand beside a model's vocabulary ("<|im_end|>") and are cut out of the text before anything else.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Fields as in tokenizer.json.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // looked for in normalised text, itself normalised
  bool special = false;      // left out by Decode with skip_special_tokens
};

// A part of a text: an added token, or text between them (id -1).
struct AddedTokenPart {
  int32_t id = -1;
  std::string_view text;
};

// Finds a set of tokens in text: leftmost first, the longest of those that begin at one place. Immutable after Add.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() { root_.fill(0); }

  void Add(const AddedToken& token);

  // Covers `text` from left to right but for white space that tokens take. `with_special` false: special tokens are
  // text.
  void Split(std::string_view text, bool with_special, std::vector<AddedTokenPart>& parts) const;

 private:
  struct Node {
    std::map<char, uint32_t> next;
    int32_t token = -1;  // index into tokens_
  };

  // The longest token at the beginning of `text`, or -1.
  int32_t Longest(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::array<uint32_t, 256> root_;  // nodes_[0].next, for speed: most bytes begin no token
};

}  // namespace troupe
