// SPDX-License-Identifier: Apache-2.0
// The parsed template: expressions that have a value and statements that write.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/tokenizer/jinja/context.h"
#include "actors/tokenizer/jinja/value.h"

namespace troupe::jinja {

class Expression {
 public:
  explicit Expression(int line) : line_(line) {}
  virtual ~Expression() = default;

  // Counts a step; adds the line to errors.
  Value Evaluate(Context& context) const;

 protected:
  virtual Value Compute(Context& context) const = 0;

 private:
  int line_;
};

using ExpressionPtr = std::unique_ptr<Expression>;

// What a statement asks of the loop around it.
enum class Flow { kNext, kBreak, kContinue };

class Statement {
 public:
  virtual ~Statement() = default;
  virtual Flow Execute(Context& context) const = 0;
};

using Body = std::vector<std::unique_ptr<Statement>>;

Flow ExecuteBody(const Body& body, Context& context);

// Positional and named arguments of a call, filter or test.
struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;

  Arguments Evaluate(Context& context) const;
};

// Constructors of the nodes; their classes are in expressions.cc and statements.cc.
ExpressionPtr MakeLiteral(int line, Value value);
ExpressionPtr MakeName(int line, std::string name);
ExpressionPtr MakeListLiteral(int line, std::vector<ExpressionPtr> items);
ExpressionPtr MakeDictLiteral(int line, std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items);
ExpressionPtr MakeAttribute(int line, ExpressionPtr object, std::string name);
ExpressionPtr MakeItem(int line, ExpressionPtr object, ExpressionPtr index);
ExpressionPtr MakeSlice(int line, ExpressionPtr object, ExpressionPtr start, ExpressionPtr stop, ExpressionPtr step);
ExpressionPtr MakeCall(int line, ExpressionPtr function, ArgumentList arguments);
ExpressionPtr MakeFilter(int line, ExpressionPtr value, std::string name, ArgumentList arguments);
ExpressionPtr MakeTest(int line, ExpressionPtr value, std::string name, ArgumentList arguments, bool negated);
ExpressionPtr MakeNegative(int line, ExpressionPtr value);
ExpressionPtr MakeNot(int line, ExpressionPtr value);
ExpressionPtr MakeBinary(int line, std::string op, ExpressionPtr a, ExpressionPtr b);  // + - * / // % ** ~ and or
// a < b <= c ...: each pair holds. Operators: == != < <= > >= in, "not in".
ExpressionPtr MakeComparison(int line, ExpressionPtr first, std::vector<std::pair<std::string, ExpressionPtr>> rest);
ExpressionPtr MakeConditional(int line, ExpressionPtr condition, ExpressionPtr yes,
                              ExpressionPtr no);  // `no` may be null

// Where `set` and `for` put values: names, or one attribute of a namespace (`attribute` not empty).
struct Target {
  std::vector<std::string> names;  // several: the value is unpacked
  bool unpack = false;
  std::string attribute;
  int line = 0;

  void Assign(Context& context, const Value& value) const;
};

struct ForLoop {
  Target target;
  ExpressionPtr items;
  ExpressionPtr condition;  // may be null
  Body body;
  Body otherwise;  // when there was no item
};

struct MacroParameter {
  std::string name;
  ExpressionPtr default_value;  // may be null
};

std::unique_ptr<Statement> MakeText(std::string text);
std::unique_ptr<Statement> MakeOutput(ExpressionPtr value);
std::unique_ptr<Statement> MakeIf(std::vector<std::pair<ExpressionPtr, Body>> branches, Body otherwise);
std::unique_ptr<Statement> MakeFor(ForLoop loop);
std::unique_ptr<Statement> MakeSet(Target target, ExpressionPtr value);
std::unique_ptr<Statement> MakeSetBlock(Target target, Body body);
std::unique_ptr<Statement> MakeMacro(std::string name, std::vector<MacroParameter> parameters, Body body);
std::unique_ptr<Statement> MakeFilterBlock(std::vector<std::pair<std::string, ArgumentList>> filters, Body body);
std::unique_ptr<Statement> MakeGroup(Body body);  // {% generation %}
std::unique_ptr<Statement> MakeFlow(Flow flow);

}  // namespace troupe::jinja
