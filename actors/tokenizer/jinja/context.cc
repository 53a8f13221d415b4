// SPDX-License-Identifier: Apache-2.0
// The state of one rendering: variables, output, limits.
#include "actors/tokenizer/jinja/context.h"

#include <utility>

namespace troupe::jinja {
namespace {

class Namespace : public Object {
 public:
  explicit Namespace(std::vector<std::pair<std::string, Value>> items) {
    for (auto& [name, value] : items) values_[name] = std::move(value);
  }
  Value Attribute(const std::string& name) const override {
    auto found = values_.find(name);
    return found == values_.end() ? Value::Missing(name) : found->second;
  }
  void SetAttribute(const std::string& name, Value value) override { values_[name] = std::move(value); }
  std::string Text() const override { return "<Namespace>"; }
  void Clear() {
    std::map<std::string, Value> values;
    values.swap(values_);
  }

 private:
  std::map<std::string, Value> values_;
};

}  // namespace

Context::~Context() {
  scopes_.clear();
  for (const auto& object : namespaces_) static_cast<Namespace&>(*object).Clear();
}

Value Context::Lookup(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto found = scope->find(name);
    if (found != scope->end()) return found->second;
  }
  return Value::Missing(name);
}

void Context::Assign(const std::string& name, Value value) { scopes_.back()[name] = std::move(value); }

void Context::Write(std::string_view text) {
  Step(1 + static_cast<int64_t>(text.size() / 64));
  if (output_.size() + text.size() > limits_.output_bytes_max) throw TemplateError("the output is too long");
  output_ += text;
}

void Context::Step(int64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps_max) throw TemplateError("the template does not end: too many steps");
}

Value Context::MakeString(std::string text) {
  Step(1 + static_cast<int64_t>(text.size() / 64));
  if (text.size() > limits_.output_bytes_max) throw TemplateError("a string is too long");
  return Value::String(std::move(text));
}

Value Context::MakeList(std::vector<Value> items) {
  Step(1 + static_cast<int64_t>(items.size()));
  if (items.size() > limits_.list_items_max) throw TemplateError("a list is too long");
  return Value::List(std::move(items));
}

Value Context::MakeNamespace(std::vector<std::pair<std::string, Value>> items) {
  Step(100 + static_cast<int64_t>(items.size()));  // it lives until the end
  namespaces_.push_back(std::make_shared<Namespace>(std::move(items)));
  return Value::Of(namespaces_.back());
}

CallGuard::CallGuard(Context& context) : context_(context) {
  if (++context.call_depth_ > context.limits_.call_depth_max) {
    --context.call_depth_;
    throw TemplateError("macros call each other too deeply");
  }
  std::vector<Context::Scope> scopes;
  scopes.push_back(std::move(context.scopes_.front()));  // given back below
  scopes.emplace_back();
  saved_.swap(context.scopes_);
  context.scopes_ = std::move(scopes);
}

CallGuard::~CallGuard() {
  --context_.call_depth_;
  saved_.front() = std::move(context_.scopes_.front());
  context_.scopes_ = std::move(saved_);
}

}  // namespace troupe::jinja
