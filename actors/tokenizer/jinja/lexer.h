// SPDX-License-Identifier: Apache-2.0
// Cuts a template into text and tokens; white-space control as Transformers sets it (trim_blocks, lstrip_blocks).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::jinja {

enum class TokenKind {
  kText,        // outside of tags
  kOpenOutput,  // {{
  kOpenBlock,   // {%
  kClose,       // }} or %}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of a string: with escapes resolved
  int line = 0;
};

// Ends with a kEnd token. Throws TemplateError.
std::vector<Token> Tokenise(std::string_view source);

}  // namespace troupe::jinja
