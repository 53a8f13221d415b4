// SPDX-License-Identifier: Apache-2.0
// Tokens with a position, and the parser of expressions over them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/tokenizer/jinja/ast.h"
#include "actors/tokenizer/jinja/lexer.h"

namespace troupe::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  Token Take();

  bool IsOperator(std::string_view text) const { return Is(TokenKind::kOperator, text); }
  bool IsName(std::string_view text) const { return Is(TokenKind::kName, text); }
  bool TakeOperator(std::string_view text) { return TakeIf(TokenKind::kOperator, text); }
  bool TakeName(std::string_view text) { return TakeIf(TokenKind::kName, text); }
  void ExpectOperator(std::string_view text);
  void ExpectName(std::string_view text);
  std::string ExpectAnyName();
  void ExpectClose();
  [[noreturn]] void Fail(const std::string& what) const;

 private:
  bool Is(TokenKind kind, std::string_view text) const { return current().kind == kind && current().text == text; }
  bool TakeIf(TokenKind kind, std::string_view text);

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr Parse();                            // with `a if b else c`
  ExpressionPtr ParseWithoutConditional();          // the items of a for loop, whose own `if` follows
  ExpressionPtr ParseTuple(bool with_conditional);  // several with commas become a list
  ArgumentList ParseArguments();                    // after "("
  // After "|": a filter's name and arguments.
  std::pair<std::string, ArgumentList> ParseFilterName();

 private:
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  ExpressionPtr ParseBinary(int level);
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParsePostfix(ExpressionPtr value);
  ExpressionPtr ParseFilters(ExpressionPtr value);
  ExpressionPtr ParseTest(ExpressionPtr value);
  ExpressionPtr ParseSubscript(ExpressionPtr value);
  ExpressionPtr ParseParentheses();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace troupe::jinja
