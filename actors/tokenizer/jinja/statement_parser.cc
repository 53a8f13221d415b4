// SPDX-License-Identifier: Apache-2.0
// The grammar of tags: if, for, set, macro, filter, generation, break, continue.
#include <initializer_list>
#include <utility>

#include "actors/tokenizer/jinja/parser.h"
#include "actors/tokenizer/jinja/token_stream.h"

namespace troupe::jinja {
namespace {

constexpr int kTagDepthMax = 100;

class StatementParser {
 public:
  explicit StatementParser(TokenStream tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Body Parse() {
    Body body = ParseBody({});
    if (tokens_.current().kind != TokenKind::kEnd) tokens_.Fail("unexpected tag '" + tokens_.next().text + "'");
    return body;
  }

 private:
  // Up to a tag whose name is in `ends` (it is left unread), or to the end.
  Body ParseBody(std::initializer_list<const char*> ends) {
    if (++depth_ > kTagDepthMax) tokens_.Fail("tags are nested too deeply");
    Body body;
    while (tokens_.current().kind != TokenKind::kEnd) {
      if (tokens_.current().kind == TokenKind::kText) {
        body.push_back(MakeText(tokens_.Take().text));
      } else if (tokens_.current().kind == TokenKind::kOpenOutput) {
        tokens_.Take();
        body.push_back(MakeOutput(expressions_.ParseTuple(true)));
        tokens_.ExpectClose();
      } else if (IsEnd(ends)) {
        break;
      } else {
        body.push_back(ParseTag());
      }
    }
    if (ends.size() > 0 && tokens_.current().kind == TokenKind::kEnd) {
      tokens_.Fail("the template ends where '" + std::string(*(ends.end() - 1)) + "' was expected");
    }
    --depth_;
    return body;
  }

  bool IsEnd(std::initializer_list<const char*> ends) const {
    for (const char* end : ends) {
      if (tokens_.next().kind == TokenKind::kName && tokens_.next().text == end) return true;
    }
    return tokens_.current().kind != TokenKind::kOpenBlock;
  }

  // {% end %}
  void ExpectEnd(const char* name) {
    tokens_.Take();
    tokens_.ExpectName(name);
    tokens_.ExpectClose();
  }

  std::unique_ptr<Statement> ParseTag() {
    tokens_.Take();
    std::string name = tokens_.ExpectAnyName();
    if (name == "if") return ParseIf();
    if (name == "for") return ParseFor();
    if (name == "set") return ParseSet();
    if (name == "macro") return ParseMacro();
    if (name == "filter") return ParseFilter();
    if (name == "generation") {  // marks what a model wrote, for training masks; the text is the same
      tokens_.ExpectClose();
      Body body = ParseBody({"endgeneration"});
      ExpectEnd("endgeneration");
      return MakeGroup(std::move(body));
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) tokens_.Fail("'" + name + "' outside of a loop");
      tokens_.ExpectClose();
      return MakeFlow(name == "break" ? Flow::kBreak : Flow::kContinue);
    }
    tokens_.Fail("the tag '" + name + "' is not supported");
  }

  std::unique_ptr<Statement> ParseIf() {
    std::vector<std::pair<ExpressionPtr, Body>> branches;
    Body otherwise;
    while (true) {
      ExpressionPtr condition = expressions_.ParseTuple(true);
      tokens_.ExpectClose();
      branches.emplace_back(std::move(condition), ParseBody({"elif", "else", "endif"}));
      if (tokens_.next().text != "elif") break;
      tokens_.Take();
      tokens_.Take();
    }
    if (tokens_.next().text == "else") {
      ExpectEnd("else");
      otherwise = ParseBody({"endif"});
    }
    ExpectEnd("endif");
    return MakeIf(std::move(branches), std::move(otherwise));
  }

  std::unique_ptr<Statement> ParseFor() {
    ForLoop loop;
    loop.target = ParseTarget();
    tokens_.ExpectName("in");
    loop.items = expressions_.ParseTuple(false);
    if (tokens_.TakeName("if")) loop.condition = expressions_.Parse();
    if (tokens_.IsName("recursive")) tokens_.Fail("recursive loops are not supported");
    tokens_.ExpectClose();
    ++loops_;
    loop.body = ParseBody({"else", "endfor"});
    --loops_;
    if (tokens_.next().text == "else") {
      ExpectEnd("else");
      loop.otherwise = ParseBody({"endfor"});
    }
    ExpectEnd("endfor");
    return MakeFor(std::move(loop));
  }

  Target ParseTarget() {
    Target target;
    target.line = tokens_.line();
    bool parentheses = tokens_.TakeOperator("(");
    target.names.push_back(tokens_.ExpectAnyName());
    if (!parentheses && tokens_.TakeOperator(".")) {
      target.attribute = tokens_.ExpectAnyName();
      return target;
    }
    while (tokens_.TakeOperator(",")) {
      target.unpack = true;
      if (tokens_.current().kind != TokenKind::kName || tokens_.IsName("in")) break;
      target.names.push_back(tokens_.ExpectAnyName());
    }
    if (parentheses) tokens_.ExpectOperator(")");
    return target;
  }

  std::unique_ptr<Statement> ParseSet() {
    Target target = ParseTarget();
    if (tokens_.TakeOperator("=")) {
      ExpressionPtr value = expressions_.ParseTuple(true);
      tokens_.ExpectClose();
      return MakeSet(std::move(target), std::move(value));
    }
    std::vector<std::pair<std::string, ArgumentList>> filters;
    while (tokens_.TakeOperator("|")) filters.push_back(expressions_.ParseFilterName());
    tokens_.ExpectClose();
    Body body = ParseBody({"endset"});
    ExpectEnd("endset");
    if (!filters.empty()) {
      Body filtered;
      filtered.push_back(MakeFilterBlock(std::move(filters), std::move(body)));
      body = std::move(filtered);
    }
    return MakeSetBlock(std::move(target), std::move(body));
  }

  // After "(".
  std::vector<MacroParameter> ParseParameters() {
    std::vector<MacroParameter> parameters;
    while (!tokens_.TakeOperator(")")) {
      if (!parameters.empty()) tokens_.ExpectOperator(",");
      if (tokens_.TakeOperator(")")) break;
      MacroParameter parameter{tokens_.ExpectAnyName(), nullptr};
      if (tokens_.TakeOperator("=")) parameter.default_value = expressions_.Parse();
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }

  // A macro's body is no part of the loop around it.
  Body ParseDetachedBody(const char* end) {
    int loops = std::exchange(loops_, 0);
    Body body = ParseBody({end});
    loops_ = loops;
    ExpectEnd(end);
    return body;
  }

  std::unique_ptr<Statement> ParseMacro() {
    std::string name = tokens_.ExpectAnyName();
    tokens_.ExpectOperator("(");
    std::vector<MacroParameter> parameters = ParseParameters();
    tokens_.ExpectClose();
    return MakeMacro(std::move(name), std::move(parameters), ParseDetachedBody("endmacro"));
  }

  std::unique_ptr<Statement> ParseFilter() {
    std::vector<std::pair<std::string, ArgumentList>> filters;
    do {
      filters.push_back(expressions_.ParseFilterName());
    } while (tokens_.TakeOperator("|"));
    tokens_.ExpectClose();
    Body body = ParseBody({"endfilter"});
    ExpectEnd("endfilter");
    return MakeFilterBlock(std::move(filters), std::move(body));
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Body ParseTemplate(std::string_view source) { return StatementParser(TokenStream(Tokenise(source))).Parse(); }

}  // namespace troupe::jinja
