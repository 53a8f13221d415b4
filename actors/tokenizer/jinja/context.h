// SPDX-License-Identifier: Apache-2.0
// The state of one rendering: variables, output, limits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "actors/tokenizer/jinja/value.h"

namespace troupe::jinja {

// What a template may use; beyond it, TemplateError. A template comes with a model, so it may be hostile.
struct Limits {
  int64_t steps_max = 20'000'000;      // expressions evaluated, or 64-byte pieces of text made: about 2 s
  size_t output_bytes_max = 64 << 20;  // and of any string
  size_t list_items_max = 1 << 20;
  int call_depth_max = 100;  // macros that call macros
  int depth_max = 1000;      // expressions, tags and macros inside each other: under 1 MiB of stack
};

class Context {
 public:
  Context(const Limits& limits, absl::Time now) : limits_(limits), now_(now), scopes_(1) {}
  ~Context();

  // Variables: an assignment goes to the innermost scope, a look-up from there outwards.
  Value Lookup(const std::string& name) const;
  void Assign(const std::string& name, Value value);

  void Write(std::string_view text);

  void Step(int64_t count = 1);
  Value MakeString(std::string text);  // counts, and checks the length
  Value MakeList(std::vector<Value> items);
  Value MakeNamespace(std::vector<std::pair<std::string, Value>> items);

  absl::Time now() const { return now_; }
  const Limits& limits() const { return limits_; }

 private:
  friend class ScopeGuard;
  friend class OutputCapture;
  friend class CallGuard;
  friend class DepthGuard;
  using Scope = std::map<std::string, Value>;

  Limits limits_;
  absl::Time now_;
  int64_t steps_ = 0;
  int call_depth_ = 0;
  int depth_ = 0;
  std::vector<Scope> scopes_;  // the first is the template's own
  std::string output_;
  std::vector<std::shared_ptr<Object>> namespaces_;  // cut loose at the end: they may hold each other
};

// One level of nesting for the life of this object.
class DepthGuard {
 public:
  explicit DepthGuard(Context& context) : context_(context) {
    if (context.depth_ >= context.limits_.depth_max) throw TemplateError("nested too deeply");
    ++context.depth_;
  }
  ~DepthGuard() { --context_.depth_; }

 private:
  Context& context_;
};

// A scope for the life of this object.
class ScopeGuard {
 public:
  explicit ScopeGuard(Context& context) : context_(context) { context_.scopes_.emplace_back(); }
  ~ScopeGuard() { context_.scopes_.pop_back(); }

 private:
  Context& context_;
};

// Collects what is written for the life of this object.
class OutputCapture {
 public:
  explicit OutputCapture(Context& context) : context_(context) { saved_.swap(context_.output_); }
  ~OutputCapture() { saved_.swap(context_.output_); }
  std::string Take() { return std::move(context_.output_); }

 private:
  Context& context_;
  std::string saved_;
};

// A macro's body sees the template's own variables and its arguments, not those of where it is called.
class CallGuard {
 public:
  explicit CallGuard(Context& context);
  ~CallGuard();

 private:
  Context& context_;
  std::vector<Context::Scope> saved_;
};

}  // namespace troupe::jinja
