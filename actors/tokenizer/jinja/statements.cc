// SPDX-License-Identifier: Apache-2.0
// What each kind of tag does.
#include <algorithm>
#include <utility>

#include "actors/tokenizer/jinja/ast.h"
#include "actors/tokenizer/jinja/builtins.h"

namespace troupe::jinja {
namespace {

class Text : public Statement {
 public:
  explicit Text(std::string text) : text_(std::move(text)) {}
  Flow Execute(Context& context) const override {
    context.Write(text_);
    return Flow::kNext;
  }

 private:
  std::string text_;
};

class Output : public Statement {
 public:
  explicit Output(ExpressionPtr value) : value_(std::move(value)) {}
  Flow Execute(Context& context) const override {
    context.Write(value_->Evaluate(context).Text());
    return Flow::kNext;
  }

 private:
  ExpressionPtr value_;
};

class If : public Statement {
 public:
  If(std::vector<std::pair<ExpressionPtr, Body>> branches, Body otherwise)
      : branches_(std::move(branches)), otherwise_(std::move(otherwise)) {}
  Flow Execute(Context& context) const override {
    for (const auto& [condition, body] : branches_) {
      if (condition->Evaluate(context).Truth()) return ExecuteBody(body, context);
    }
    return ExecuteBody(otherwise_, context);
  }

 private:
  std::vector<std::pair<ExpressionPtr, Body>> branches_;
  Body otherwise_;
};

// The variable `loop`.
class Loop : public Object {
 public:
  explicit Loop(std::vector<Value> items) : items_(std::move(items)) {
    for (const Value& item : items_) depth_ = std::max(depth_, item.depth() + 1);
  }
  int depth() const override { return depth_; }

  std::vector<Value> items_;
  size_t index_ = 0;

  Value Attribute(const std::string& name) const override {
    int64_t index = static_cast<int64_t>(index_), length = static_cast<int64_t>(items_.size());
    if (name == "index") return Value::Int(index + 1);
    if (name == "index0") return Value::Int(index);
    if (name == "revindex") return Value::Int(length - index);
    if (name == "revindex0") return Value::Int(length - index - 1);
    if (name == "first") return Value::Bool(index == 0);
    if (name == "last") return Value::Bool(index + 1 == length);
    if (name == "length") return Value::Int(length);
    if (name == "depth") return Value::Int(1);
    if (name == "depth0") return Value::Int(0);
    if (name == "previtem") return index_ > 0 ? items_[index_ - 1] : Value::Missing("loop.previtem");
    if (name == "nextitem") return index + 1 < length ? items_[index_ + 1] : Value::Missing("loop.nextitem");
    if (name == "cycle") {
      auto cycle = [index](Context&, const Arguments& arguments) {
        if (arguments.positional.empty()) throw TemplateError("loop.cycle needs values");
        return arguments.positional[static_cast<size_t>(index) % arguments.positional.size()];
      };
      return Value::Of(std::make_shared<const Function>(Function{"cycle", cycle, 0}));
    }
    return Value::Missing("loop." + name);
  }
  std::string Text() const override { return "<LoopContext>"; }

 private:
  int depth_ = 1;
};

class For : public Statement {
 public:
  explicit For(ForLoop loop) : loop_(std::move(loop)) {}

  Flow Execute(Context& context) const override {
    std::vector<Value> items = loop_.items->Evaluate(context).Iterate();
    context.Step(static_cast<int64_t>(items.size()));
    if (loop_.condition != nullptr) items = Filtered(context, std::move(items));
    if (items.empty()) return ExecuteBody(loop_.otherwise, context);
    auto loop = std::make_shared<Loop>(std::move(items));
    for (; loop->index_ < loop->items_.size(); ++loop->index_) {
      context.Step();
      ScopeGuard scope(context);  // each turn has variables of its own
      context.Assign("loop", Value::Of(std::static_pointer_cast<Object>(loop)));
      loop_.target.Assign(context, loop->items_[loop->index_]);
      if (ExecuteBody(loop_.body, context) == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

 private:
  std::vector<Value> Filtered(Context& context, std::vector<Value> items) const {
    std::vector<Value> out;
    for (Value& item : items) {
      ScopeGuard scope(context);
      loop_.target.Assign(context, item);
      if (loop_.condition->Evaluate(context).Truth()) out.push_back(std::move(item));
    }
    return out;
  }

  ForLoop loop_;
};

class Set : public Statement {
 public:
  Set(Target target, ExpressionPtr value) : target_(std::move(target)), value_(std::move(value)) {}
  Flow Execute(Context& context) const override {
    target_.Assign(context, value_->Evaluate(context));
    return Flow::kNext;
  }

 private:
  Target target_;
  ExpressionPtr value_;
};

class SetBlock : public Statement {
 public:
  SetBlock(Target target, Body body) : target_(std::move(target)), body_(std::move(body)) {}
  Flow Execute(Context& context) const override {
    std::string text;
    {
      OutputCapture capture(context);
      ScopeGuard scope(context);
      ExecuteBody(body_, context);
      text = capture.Take();
    }
    target_.Assign(context, context.MakeString(std::move(text)));
    return Flow::kNext;
  }

 private:
  Target target_;
  Body body_;
};

// What {% macro %} defines. Lives as long as the template, which outlives every value.
class MacroBody {
 public:
  MacroBody(std::string name, std::vector<MacroParameter> parameters, Body body)
      : name_(std::move(name)), parameters_(std::move(parameters)), body_(std::move(body)) {}

  Value AsValue() const {
    auto call = [this](Context& context, const Arguments& arguments) { return Call(context, arguments); };
    return Value::Of(std::make_shared<const Function>(Function{name_, call, 0}));
  }

  // Assigns the parameters in the innermost scope and gives the text of the body.
  Value Run(Context& context, const Arguments& arguments) const {
    if (arguments.positional.size() > parameters_.size()) {
      throw TemplateError("'" + name_ + "' takes " + std::to_string(parameters_.size()) + " arguments");
    }
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Value* given = arguments.Get(i, parameters_[i].name);
      if (given != nullptr) {
        context.Assign(parameters_[i].name, *given);
      } else if (parameters_[i].default_value != nullptr) {
        context.Assign(parameters_[i].name, parameters_[i].default_value->Evaluate(context));
      } else {
        context.Assign(parameters_[i].name, Value::Missing(parameters_[i].name));
      }
    }
    OutputCapture capture(context);
    ExecuteBody(body_, context);
    return context.MakeString(capture.Take());
  }

 private:
  Value Call(Context& context, const Arguments& arguments) const {
    CallGuard guard(context);
    return Run(context, arguments);
  }

  std::string name_;
  std::vector<MacroParameter> parameters_;
  Body body_;
};

class Macro : public Statement {
 public:
  Macro(std::string name, std::vector<MacroParameter> parameters, Body body)
      : name_(name), body_(std::move(name), std::move(parameters), std::move(body)) {}
  Flow Execute(Context& context) const override {
    context.Assign(name_, body_.AsValue());
    return Flow::kNext;
  }

 private:
  std::string name_;
  MacroBody body_;
};

class FilterBlock : public Statement {
 public:
  FilterBlock(std::vector<std::pair<std::string, ArgumentList>> filters, Body body)
      : filters_(std::move(filters)), body_(std::move(body)) {
    for (const auto& [name, arguments] : filters_) {
      if (FindFilter(name) == nullptr) throw TemplateError("the filter '" + name + "' is not supported");
    }
  }
  Flow Execute(Context& context) const override {
    Value value;
    {
      OutputCapture capture(context);
      ScopeGuard scope(context);
      ExecuteBody(body_, context);
      value = context.MakeString(capture.Take());
    }
    for (const auto& [name, arguments] : filters_)
      value = FindFilter(name)(context, value, arguments.Evaluate(context));
    context.Write(value.Text());
    return Flow::kNext;
  }

 private:
  std::vector<std::pair<std::string, ArgumentList>> filters_;
  Body body_;
};

class Group : public Statement {
 public:
  explicit Group(Body body) : body_(std::move(body)) {}
  Flow Execute(Context& context) const override { return ExecuteBody(body_, context); }

 private:
  Body body_;
};

class FlowTag : public Statement {
 public:
  explicit FlowTag(Flow flow) : flow_(flow) {}
  Flow Execute(Context&) const override { return flow_; }

 private:
  Flow flow_;
};

}  // namespace

Flow ExecuteBody(const Body& body, Context& context) {
  DepthGuard guard(context);
  for (const auto& statement : body) {
    context.Step();
    Flow flow = statement->Execute(context);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

void Target::Assign(Context& context, const Value& value) const {
  if (!attribute.empty()) {
    Value object = context.Lookup(names[0]);
    if (!object.IsObject()) throw TemplateError("'" + names[0] + "' is no namespace", line);
    return object.AsObject().SetAttribute(attribute, value);
  }
  if (!unpack) return context.Assign(names[0], value);
  std::vector<Value> values = value.Iterate();
  if (values.size() != names.size()) {
    throw TemplateError(
        "cannot unpack " + std::to_string(values.size()) + " values into " + std::to_string(names.size()), line);
  }
  for (size_t i = 0; i < names.size(); ++i) context.Assign(names[i], values[i]);
}

std::unique_ptr<Statement> MakeText(std::string text) { return std::make_unique<Text>(std::move(text)); }
std::unique_ptr<Statement> MakeOutput(ExpressionPtr value) { return std::make_unique<Output>(std::move(value)); }
std::unique_ptr<Statement> MakeIf(std::vector<std::pair<ExpressionPtr, Body>> branches, Body otherwise) {
  return std::make_unique<If>(std::move(branches), std::move(otherwise));
}
std::unique_ptr<Statement> MakeFor(ForLoop loop) { return std::make_unique<For>(std::move(loop)); }
std::unique_ptr<Statement> MakeSet(Target target, ExpressionPtr value) {
  return std::make_unique<Set>(std::move(target), std::move(value));
}
std::unique_ptr<Statement> MakeSetBlock(Target target, Body body) {
  return std::make_unique<SetBlock>(std::move(target), std::move(body));
}
std::unique_ptr<Statement> MakeMacro(std::string name, std::vector<MacroParameter> parameters, Body body) {
  return std::make_unique<Macro>(std::move(name), std::move(parameters), std::move(body));
}
std::unique_ptr<Statement> MakeFilterBlock(std::vector<std::pair<std::string, ArgumentList>> filters, Body body) {
  return std::make_unique<FilterBlock>(std::move(filters), std::move(body));
}
std::unique_ptr<Statement> MakeGroup(Body body) { return std::make_unique<Group>(std::move(body)); }
std::unique_ptr<Statement> MakeFlow(Flow flow) { return std::make_unique<FlowTag>(flow); }

}  // namespace troupe::jinja
