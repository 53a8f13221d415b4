// SPDX-License-Identifier: Apache-2.0
// The grammar of expressions, by recursive descent in Jinja's order of precedence.
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "actors/tokenizer/jinja/token_stream.h"

namespace troupe::jinja {
namespace {

constexpr int kDepthMax = 100;  // of nested expressions: the parser and destructors recurse
constexpr int kChainMax = 200;  // of operators of one level: a + b + c is a tree as deep as it is long

struct NestingGuard {
  NestingGuard(int& depth, const TokenStream& tokens) : depth_(depth) {
    if (depth_ >= kDepthMax) tokens.Fail("an expression is nested too deeply");
    ++depth_;
  }
  ~NestingGuard() { --depth_; }
  int& depth_;
};

void CheckChain(int& length, const TokenStream& tokens) {
  if (++length > kChainMax) tokens.Fail("an expression is too long");
}

}  // namespace

Token TokenStream::Take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::TakeIf(TokenKind kind, std::string_view text) {
  if (!Is(kind, text)) return false;
  Take();
  return true;
}

void TokenStream::Fail(const std::string& what) const { throw TemplateError(what, line()); }

void TokenStream::ExpectOperator(std::string_view text) {
  if (!TakeOperator(text)) Fail("expected '" + std::string(text) + "' before '" + current().text + "'");
}

void TokenStream::ExpectName(std::string_view text) {
  if (!TakeName(text)) Fail("expected '" + std::string(text) + "' before '" + current().text + "'");
}

std::string TokenStream::ExpectAnyName() {
  if (current().kind != TokenKind::kName) Fail("expected a name before '" + current().text + "'");
  return Take().text;
}

void TokenStream::ExpectClose() {
  if (current().kind != TokenKind::kClose) Fail("expected the end of the tag before '" + current().text + "'");
  Take();
}

ExpressionPtr ExpressionParser::Parse() {
  NestingGuard guard(depth_, tokens_);
  ExpressionPtr value = ParseOr();
  int length = 0;
  while (tokens_.IsName("if")) {
    CheckChain(length, tokens_);
    int line = tokens_.Take().line;
    ExpressionPtr condition = ParseOr();
    ExpressionPtr otherwise = tokens_.TakeName("else") ? Parse() : nullptr;
    value = MakeConditional(line, std::move(condition), std::move(value), std::move(otherwise));
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseWithoutConditional() { return ParseOr(); }

ExpressionPtr ExpressionParser::ParseTuple(bool with_conditional) {
  int line = tokens_.line();
  std::vector<ExpressionPtr> items;
  auto parse = [&] { return with_conditional ? Parse() : ParseWithoutConditional(); };
  items.push_back(parse());
  if (!tokens_.IsOperator(",")) return std::move(items.front());
  while (tokens_.TakeOperator(",")) {
    if (tokens_.current().kind == TokenKind::kClose || tokens_.IsOperator(")")) break;
    items.push_back(parse());
  }
  return MakeListLiteral(line, std::move(items));
}

ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr value = ParseAnd();
  int length = 0;
  while (tokens_.IsName("or")) {
    CheckChain(length, tokens_);
    int line = tokens_.Take().line;
    value = MakeBinary(line, "or", std::move(value), ParseAnd());
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr value = ParseNot();
  int length = 0;
  while (tokens_.IsName("and")) {
    CheckChain(length, tokens_);
    int line = tokens_.Take().line;
    value = MakeBinary(line, "and", std::move(value), ParseNot());
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!tokens_.IsName("not")) return ParseComparison();
  NestingGuard guard(depth_, tokens_);
  int line = tokens_.Take().line;
  return MakeNot(line, ParseNot());
}

ExpressionPtr ExpressionParser::ParseComparison() {
  int line = tokens_.line();
  ExpressionPtr first = ParseBinary(0);
  std::vector<std::pair<std::string, ExpressionPtr>> rest;
  while (true) {
    std::string op;
    for (const char* known : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (op.empty() && tokens_.TakeOperator(known)) op = known;
    }
    if (op.empty() && tokens_.TakeName("in")) op = "in";
    if (op.empty() && tokens_.IsName("not") && tokens_.next().text == "in") {
      tokens_.Take();
      tokens_.Take();
      op = "not in";
    }
    if (op.empty()) break;
    rest.emplace_back(op, ParseBinary(0));
  }
  return rest.empty() ? std::move(first) : MakeComparison(line, std::move(first), std::move(rest));
}

// Level 0: + and -; 1: ~; 2: * / // %.
ExpressionPtr ExpressionParser::ParseBinary(int level) {
  static const std::vector<std::string> kOperators[] = {{"+", "-"}, {"~"}, {"*", "//", "/", "%"}};
  if (level == 3) return ParsePower();
  ExpressionPtr value = ParseBinary(level + 1);
  int length = 0;
  while (true) {
    CheckChain(length, tokens_);
    bool found = false;
    for (const std::string& op : kOperators[level]) {
      int line = tokens_.line();
      if (!tokens_.TakeOperator(op)) continue;
      value = MakeBinary(line, op, std::move(value), ParseBinary(level + 1));
      found = true;
      break;
    }
    if (!found) return value;
  }
}

ExpressionPtr ExpressionParser::ParsePower() {
  ExpressionPtr value = ParseUnary(true);
  int length = 0;
  while (tokens_.IsOperator("**")) {
    CheckChain(length, tokens_);
    int line = tokens_.Take().line;
    value = MakeBinary(line, "**", std::move(value), ParseUnary(true));
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  NestingGuard guard(depth_, tokens_);
  int line = tokens_.line();
  ExpressionPtr value;
  if (tokens_.TakeOperator("-")) {
    value = MakeNegative(line, ParseUnary(false));
  } else if (tokens_.TakeOperator("+")) {
    value = ParseUnary(false);
  } else {
    value = ParsePrimary();
  }
  value = ParsePostfix(std::move(value));
  return with_filters ? ParseFilters(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  Token token = tokens_.current();
  switch (token.kind) {
    case TokenKind::kName: {
      tokens_.Take();
      if (token.text == "true" || token.text == "True") return MakeLiteral(token.line, Value::Bool(true));
      if (token.text == "false" || token.text == "False") return MakeLiteral(token.line, Value::Bool(false));
      if (token.text == "none" || token.text == "None") return MakeLiteral(token.line, Value::None());
      return MakeName(token.line, token.text);
    }
    case TokenKind::kString: {
      std::string text;
      while (tokens_.current().kind == TokenKind::kString) text += tokens_.Take().text;  // neighbours are one
      return MakeLiteral(token.line, Value::String(std::move(text)));
    }
    case TokenKind::kInteger: {
      tokens_.Take();
      int64_t value = 0;
      auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (result.ec != std::errc()) tokens_.Fail("the number " + token.text + " is too large");
      return MakeLiteral(token.line, Value::Int(value));
    }
    case TokenKind::kFloat:
      tokens_.Take();
      return MakeLiteral(token.line, Value::Float(std::strtod(token.text.c_str(), nullptr)));
    default:
      break;
  }
  if (tokens_.TakeOperator("(")) return ParseParentheses();
  if (tokens_.TakeOperator("[")) return ParseList();
  if (tokens_.TakeOperator("{")) return ParseDict();
  tokens_.Fail(token.kind == TokenKind::kOperator ? "unexpected '" + token.text + "'" : "an expression is missing");
}

ExpressionPtr ExpressionParser::ParseParentheses() {
  int line = tokens_.line();
  if (tokens_.TakeOperator(")")) return MakeListLiteral(line, {});
  ExpressionPtr value = ParseTuple(true);
  tokens_.ExpectOperator(")");
  return value;
}

ExpressionPtr ExpressionParser::ParseList() {
  int line = tokens_.line();
  std::vector<ExpressionPtr> items;
  while (!tokens_.TakeOperator("]")) {
    if (!items.empty()) tokens_.ExpectOperator(",");
    if (tokens_.TakeOperator("]")) break;
    items.push_back(Parse());
  }
  return MakeListLiteral(line, std::move(items));
}

ExpressionPtr ExpressionParser::ParseDict() {
  int line = tokens_.line();
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
  while (!tokens_.TakeOperator("}")) {
    if (!items.empty()) tokens_.ExpectOperator(",");
    if (tokens_.TakeOperator("}")) break;
    ExpressionPtr key = Parse();
    tokens_.ExpectOperator(":");
    items.emplace_back(std::move(key), Parse());
  }
  return MakeDictLiteral(line, std::move(items));
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr value) {
  for (int count = 0;; ++count) {
    if (count > kDepthMax) tokens_.Fail("an expression is nested too deeply");
    int line = tokens_.line();
    if (tokens_.TakeOperator(".")) {
      if (tokens_.current().kind == TokenKind::kInteger) {
        value = MakeItem(line, std::move(value), ParsePrimary());
      } else {
        value = MakeAttribute(line, std::move(value), tokens_.ExpectAnyName());
      }
    } else if (tokens_.TakeOperator("[")) {
      value = ParseSubscript(std::move(value));
    } else if (tokens_.TakeOperator("(")) {
      value = MakeCall(line, std::move(value), ParseArguments());
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr value) {
  int line = tokens_.line();
  ExpressionPtr parts[3];
  bool is_slice = false;
  for (int i = 0; i < 3; ++i) {
    if (!tokens_.IsOperator(":") && !tokens_.IsOperator("]")) parts[i] = Parse();
    if (!tokens_.TakeOperator(":")) break;
    is_slice = true;
  }
  tokens_.ExpectOperator("]");
  if (is_slice) return MakeSlice(line, std::move(value), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
  if (parts[0] == nullptr) tokens_.Fail("an index is missing");
  return MakeItem(line, std::move(value), std::move(parts[0]));
}

ArgumentList ExpressionParser::ParseArguments() {
  ArgumentList arguments;
  bool first = true;
  while (!tokens_.TakeOperator(")")) {
    if (!first) tokens_.ExpectOperator(",");
    first = false;
    if (tokens_.TakeOperator(")")) break;
    if (tokens_.current().kind == TokenKind::kName && tokens_.next().kind == TokenKind::kOperator &&
        tokens_.next().text == "=") {
      std::string name = tokens_.Take().text;
      tokens_.Take();
      arguments.named.emplace_back(std::move(name), Parse());
    } else {
      if (!arguments.named.empty()) tokens_.Fail("a positional argument after a named one");
      arguments.positional.push_back(Parse());
    }
  }
  return arguments;
}

std::pair<std::string, ArgumentList> ExpressionParser::ParseFilterName() {
  std::string name = tokens_.ExpectAnyName();
  while (tokens_.TakeOperator(".")) name += "." + tokens_.ExpectAnyName();
  ArgumentList arguments;
  if (tokens_.TakeOperator("(")) arguments = ParseArguments();
  return {std::move(name), std::move(arguments)};
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr value) {
  for (int count = 0;; ++count) {
    if (count > kDepthMax) tokens_.Fail("an expression is nested too deeply");
    int line = tokens_.line();
    if (tokens_.TakeOperator("|")) {
      auto [name, arguments] = ParseFilterName();
      value = MakeFilter(line, std::move(value), std::move(name), std::move(arguments));
    } else if (tokens_.TakeName("is")) {
      value = ParseTest(std::move(value));
    } else if (tokens_.TakeOperator("(")) {
      value = MakeCall(line, std::move(value), ParseArguments());
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr value) {
  int line = tokens_.line();
  bool negated = tokens_.TakeName("not");
  std::string name = tokens_.ExpectAnyName();
  ArgumentList arguments;
  if (tokens_.TakeOperator("(")) {
    arguments = ParseArguments();
  } else {
    // One argument may follow without parentheses: `x is divisibleby 3`.
    bool is_word = false;
    for (const char* word : {"else", "or", "and", "if", "is", "in", "not", "recursive"})
      is_word |= tokens_.IsName(word);
    TokenKind kind = tokens_.current().kind;
    if (!is_word && (kind == TokenKind::kName || kind == TokenKind::kString || kind == TokenKind::kInteger ||
                     kind == TokenKind::kFloat || tokens_.IsOperator("[") || tokens_.IsOperator("{"))) {
      arguments.positional.push_back(ParsePostfix(ParsePrimary()));
    }
  }
  return MakeTest(line, std::move(value), std::move(name), std::move(arguments), negated);
}

}  // namespace troupe::jinja
