// SPDX-License-Identifier: Apache-2.0
// How each kind of expression gets its value.
#include <utility>

#include "actors/tokenizer/jinja/ast.h"
#include "actors/tokenizer/jinja/builtins.h"

namespace troupe::jinja {
namespace {

class Literal : public Expression {
 public:
  Literal(int line, Value value) : Expression(line), value_(std::move(value)) {}
  Value Compute(Context&) const override { return value_; }

 private:
  Value value_;
};

class Name : public Expression {
 public:
  Name(int line, std::string name) : Expression(line), name_(std::move(name)) {}
  Value Compute(Context& context) const override {
    Value value = context.Lookup(name_);
    if (!value.IsUndefined()) return value;
    Value function = FindFunction(name_);
    return function.IsUndefined() ? value : function;
  }

 private:
  std::string name_;
};

class ListLiteral : public Expression {
 public:
  ListLiteral(int line, std::vector<ExpressionPtr> items) : Expression(line), items_(std::move(items)) {}
  Value Compute(Context& context) const override {
    std::vector<Value> values;
    for (const ExpressionPtr& item : items_) values.push_back(item->Evaluate(context));
    return context.MakeList(std::move(values));
  }

 private:
  std::vector<ExpressionPtr> items_;
};

class DictLiteral : public Expression {
 public:
  DictLiteral(int line, std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items)
      : Expression(line), items_(std::move(items)) {}
  Value Compute(Context& context) const override {
    std::vector<std::pair<std::string, Value>> values;
    for (const auto& [key, item] : items_) {
      std::string name = key->Evaluate(context).AsString();
      Value value = item->Evaluate(context);
      bool replaced = false;
      for (auto& other : values) {
        if (other.first != name) continue;
        other.second = value;
        replaced = true;
      }
      if (!replaced) values.emplace_back(std::move(name), std::move(value));
    }
    return Value::Dict(std::move(values));
  }

 private:
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items_;
};

class Attribute : public Expression {
 public:
  Attribute(int line, ExpressionPtr object, std::string name)
      : Expression(line), object_(std::move(object)), name_(std::move(name)) {}
  Value Compute(Context& context) const override { return GetAttribute(object_->Evaluate(context), name_); }

 private:
  ExpressionPtr object_;
  std::string name_;
};

class Item : public Expression {
 public:
  Item(int line, ExpressionPtr object, ExpressionPtr index)
      : Expression(line), object_(std::move(object)), index_(std::move(index)) {}
  Value Compute(Context& context) const override {
    Value object = object_->Evaluate(context);
    return GetItem(context, object, index_->Evaluate(context));
  }

 private:
  ExpressionPtr object_, index_;
};

class Slice : public Expression {
 public:
  Slice(int line, ExpressionPtr object, ExpressionPtr start, ExpressionPtr stop, ExpressionPtr step)
      : Expression(line),
        object_(std::move(object)),
        start_(std::move(start)),
        stop_(std::move(stop)),
        step_(std::move(step)) {}
  Value Compute(Context& context) const override {
    auto part = [&](const ExpressionPtr& expression) {
      return expression == nullptr ? Value::None() : expression->Evaluate(context);
    };
    Value object = object_->Evaluate(context);
    Value start = part(start_), stop = part(stop_);
    return GetSlice(context, object, start, stop, part(step_));
  }

 private:
  ExpressionPtr object_, start_, stop_, step_;
};

class Call : public Expression {
 public:
  Call(int line, ExpressionPtr function, ArgumentList arguments)
      : Expression(line), function_(std::move(function)), arguments_(std::move(arguments)) {}
  Value Compute(Context& context) const override {
    Value function = function_->Evaluate(context);
    Arguments arguments = arguments_.Evaluate(context);
    return function.AsFunction().call(context, arguments);
  }

 private:
  ExpressionPtr function_;
  ArgumentList arguments_;
};

class FilterCall : public Expression {
 public:
  FilterCall(int line, ExpressionPtr value, std::string name, ArgumentList arguments)
      : Expression(line), value_(std::move(value)), name_(std::move(name)), arguments_(std::move(arguments)) {
    filter_ = FindFilter(name_);
    if (filter_ == nullptr) throw TemplateError("the filter '" + name_ + "' is not supported", line);
  }
  Value Compute(Context& context) const override {
    Value value = value_->Evaluate(context);
    return filter_(context, value, arguments_.Evaluate(context));
  }

 private:
  ExpressionPtr value_;
  std::string name_;
  ArgumentList arguments_;
  Filter filter_;
};

class TestCall : public Expression {
 public:
  TestCall(int line, ExpressionPtr value, std::string name, ArgumentList arguments, bool negated)
      : Expression(line), value_(std::move(value)), arguments_(std::move(arguments)), negated_(negated) {
    test_ = FindTest(name);
    if (test_ == nullptr) throw TemplateError("the test '" + name + "' is not supported", line);
  }
  Value Compute(Context& context) const override {
    Value value = value_->Evaluate(context);
    return Value::Bool(test_(context, value, arguments_.Evaluate(context)) != negated_);
  }

 private:
  ExpressionPtr value_;
  ArgumentList arguments_;
  bool negated_;
  Test test_;
};

class Negative : public Expression {
 public:
  Negative(int line, ExpressionPtr value) : Expression(line), value_(std::move(value)) {}
  Value Compute(Context& context) const override {
    Value value = value_->Evaluate(context);
    if (value.IsFloat()) return Value::Float(-value.AsFloat());
    return Arithmetic(context, "-", Value::Int(0), value);
  }

 private:
  ExpressionPtr value_;
};

class Not : public Expression {
 public:
  Not(int line, ExpressionPtr value) : Expression(line), value_(std::move(value)) {}
  Value Compute(Context& context) const override { return Value::Bool(!value_->Evaluate(context).Truth()); }

 private:
  ExpressionPtr value_;
};

class Binary : public Expression {
 public:
  Binary(int line, std::string op, ExpressionPtr a, ExpressionPtr b)
      : Expression(line), op_(std::move(op)), a_(std::move(a)), b_(std::move(b)) {}
  Value Compute(Context& context) const override {
    Value a = a_->Evaluate(context);
    if (op_ == "and") return a.Truth() ? b_->Evaluate(context) : a;
    if (op_ == "or") return a.Truth() ? a : b_->Evaluate(context);
    return Arithmetic(context, op_, a, b_->Evaluate(context));
  }

 private:
  std::string op_;
  ExpressionPtr a_, b_;
};

class Comparison : public Expression {
 public:
  Comparison(int line, ExpressionPtr first, std::vector<std::pair<std::string, ExpressionPtr>> rest)
      : Expression(line), first_(std::move(first)), rest_(std::move(rest)) {}
  Value Compute(Context& context) const override {
    Value left = first_->Evaluate(context);
    for (const auto& [op, expression] : rest_) {
      Value right = expression->Evaluate(context);
      if (!Holds(context, op, left, right)) return Value::Bool(false);
      left = std::move(right);
    }
    return Value::Bool(true);
  }

 private:
  static bool Holds(Context& context, const std::string& op, const Value& a, const Value& b) {
    if (op == "==") return a == b;
    if (op == "!=") return !(a == b);
    if (op == "in") return Contains(context, b, a);
    if (op == "not in") return !Contains(context, b, a);
    int order = Value::Compare(a, b);
    if (op == "<") return order < 0;
    if (op == "<=") return order <= 0;
    return op == ">" ? order > 0 : order >= 0;
  }

  ExpressionPtr first_;
  std::vector<std::pair<std::string, ExpressionPtr>> rest_;
};

class Conditional : public Expression {
 public:
  Conditional(int line, ExpressionPtr condition, ExpressionPtr yes, ExpressionPtr no)
      : Expression(line), condition_(std::move(condition)), yes_(std::move(yes)), no_(std::move(no)) {}
  Value Compute(Context& context) const override {
    if (condition_->Evaluate(context).Truth()) return yes_->Evaluate(context);
    return no_ == nullptr ? Value() : no_->Evaluate(context);
  }

 private:
  ExpressionPtr condition_, yes_, no_;
};

}  // namespace

Value Expression::Evaluate(Context& context) const {
  try {
    DepthGuard guard(context);
    context.Step();
    return Compute(context);
  } catch (TemplateError& error) {
    if (error.line == 0) error.line = line_;
    throw;
  }
}

Arguments ArgumentList::Evaluate(Context& context) const {
  Arguments out;
  for (const ExpressionPtr& argument : positional) out.positional.push_back(argument->Evaluate(context));
  for (const auto& [name, argument] : named) out.named.emplace_back(name, argument->Evaluate(context));
  return out;
}

ExpressionPtr MakeLiteral(int line, Value value) { return std::make_unique<Literal>(line, std::move(value)); }
ExpressionPtr MakeName(int line, std::string name) { return std::make_unique<Name>(line, std::move(name)); }
ExpressionPtr MakeListLiteral(int line, std::vector<ExpressionPtr> items) {
  return std::make_unique<ListLiteral>(line, std::move(items));
}
ExpressionPtr MakeDictLiteral(int line, std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items) {
  return std::make_unique<DictLiteral>(line, std::move(items));
}
ExpressionPtr MakeAttribute(int line, ExpressionPtr object, std::string name) {
  return std::make_unique<Attribute>(line, std::move(object), std::move(name));
}
ExpressionPtr MakeItem(int line, ExpressionPtr object, ExpressionPtr index) {
  return std::make_unique<Item>(line, std::move(object), std::move(index));
}
ExpressionPtr MakeSlice(int line, ExpressionPtr object, ExpressionPtr start, ExpressionPtr stop, ExpressionPtr step) {
  return std::make_unique<Slice>(line, std::move(object), std::move(start), std::move(stop), std::move(step));
}
ExpressionPtr MakeCall(int line, ExpressionPtr function, ArgumentList arguments) {
  return std::make_unique<Call>(line, std::move(function), std::move(arguments));
}
ExpressionPtr MakeFilter(int line, ExpressionPtr value, std::string name, ArgumentList arguments) {
  return std::make_unique<FilterCall>(line, std::move(value), std::move(name), std::move(arguments));
}
ExpressionPtr MakeTest(int line, ExpressionPtr value, std::string name, ArgumentList arguments, bool negated) {
  return std::make_unique<TestCall>(line, std::move(value), std::move(name), std::move(arguments), negated);
}
ExpressionPtr MakeNegative(int line, ExpressionPtr value) { return std::make_unique<Negative>(line, std::move(value)); }
ExpressionPtr MakeNot(int line, ExpressionPtr value) { return std::make_unique<Not>(line, std::move(value)); }
ExpressionPtr MakeBinary(int line, std::string op, ExpressionPtr a, ExpressionPtr b) {
  return std::make_unique<Binary>(line, std::move(op), std::move(a), std::move(b));
}
ExpressionPtr MakeComparison(int line, ExpressionPtr first, std::vector<std::pair<std::string, ExpressionPtr>> rest) {
  return std::make_unique<Comparison>(line, std::move(first), std::move(rest));
}
ExpressionPtr MakeConditional(int line, ExpressionPtr condition, ExpressionPtr yes, ExpressionPtr no) {
  return std::make_unique<Conditional>(line, std::move(condition), std::move(yes), std::move(no));
}

}  // namespace troupe::jinja
