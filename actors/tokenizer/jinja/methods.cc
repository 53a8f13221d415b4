// SPDX-License-Identifier: Apache-2.0
// The methods of strings, dicts and lists that templates call. Those that change a value are refused, as Transformers
// refuses them.
#include <algorithm>
#include <map>
#include <utility>

#include "actors/tokenizer/jinja/builtins.h"
#include "actors/tokenizer/jinja/text_functions.h"
#include "actors/tokenizer/utf8.h"

namespace troupe::jinja {
namespace {

using Method = Value (*)(Context& context, const Value& self, const Arguments& arguments);

std::string OptionalText(const Arguments& arguments, size_t index, const char* name) {
  const Value* value = arguments.Get(index, name);
  return value == nullptr || value->IsNone() ? "" : value->AsString();
}

int64_t OptionalInt(const Arguments& arguments, size_t index, const char* name, int64_t otherwise) {
  const Value* value = arguments.Get(index, name);
  return value == nullptr || value->IsNone() ? otherwise : value->AsInt();
}

Value TextList(Context& context, std::vector<std::string> texts) {
  std::vector<Value> items;
  for (std::string& text : texts) items.push_back(Value::String(std::move(text)));
  return context.MakeList(std::move(items));
}

template <bool left, bool right>
Value StripMethod(Context& context, const Value& self, const Arguments& arguments) {
  return context.MakeString(Strip(self.AsString(), OptionalText(arguments, 0, "chars"), left, right));
}

template <Case to>
Value CaseMethod(Context& context, const Value& self, const Arguments&) {
  return context.MakeString(ChangeCase(self.AsString(), to));
}

template <bool from_right>
Value SplitMethod(Context& context, const Value& self, const Arguments& arguments) {
  const Value* separator = arguments.Get(0, "sep");
  if (separator != nullptr && separator->IsString() && separator->AsString().empty()) {
    throw TemplateError("split: the separator is empty");
  }
  return TextList(context, SplitText(self.AsString(), OptionalText(arguments, 0, "sep"),
                                     OptionalInt(arguments, 1, "maxsplit", -1), from_right));
}

bool MatchesAt(const std::string& text, const std::string& part, bool at_end) {
  return text.size() >= part.size() && text.compare(at_end ? text.size() - part.size() : 0, part.size(), part) == 0;
}

template <bool at_end>
Value BoundaryMethod(Context&, const Value& self, const Arguments& arguments) {
  const Value& part = arguments.Require(0, at_end ? "suffix" : "prefix");
  if (part.IsString()) return Value::Bool(MatchesAt(self.AsString(), part.AsString(), at_end));
  for (const Value& one : part.AsList()) {
    if (MatchesAt(self.AsString(), one.AsString(), at_end)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool at_end>
Value RemoveMethod(Context& context, const Value& self, const Arguments& arguments) {
  std::string text = self.AsString();
  const std::string& part = arguments.Require(0, at_end ? "suffix" : "prefix").AsString();
  if (MatchesAt(text, part, at_end)) text.erase(at_end ? text.size() - part.size() : 0, part.size());
  return context.MakeString(std::move(text));
}

template <bool from_right, bool must>
Value FindText(Context& context, const Value& self, const Arguments& arguments) {
  const std::string& text = self.AsString();
  context.Step(static_cast<int64_t>(text.size() / 64));
  const std::string& part = arguments.Require(0, "sub").AsString();
  size_t found = from_right ? text.rfind(part) : text.find(part);
  if (found == text.npos && must) throw TemplateError("index: the text is not there");
  return Value::Int(
      found == text.npos ? -1 : static_cast<int64_t>(CountCharacters(std::string_view(text).substr(0, found))));
}

Value ReplaceMethod(Context& context, const Value& self, const Arguments& arguments) {
  return context.MakeString(ReplaceText(self.AsString(), arguments.Require(0, "old").AsString(),
                                        arguments.Require(1, "new").AsString(), OptionalInt(arguments, 2, "count", -1),
                                        context.limits().output_bytes_max));
}

Value CountMethod(Context& context, const Value& self, const Arguments& arguments) {
  if (self.IsList()) {
    context.Step(static_cast<int64_t>(self.AsList().size()));
    return Value::Int(std::count(self.AsList().begin(), self.AsList().end(), arguments.Require(0, "value")));
  }
  const std::string& part = arguments.Require(0, "sub").AsString();
  if (part.empty()) return Value::Int(static_cast<int64_t>(CountCharacters(self.AsString())) + 1);
  return Value::Int(static_cast<int64_t>(SplitText(self.AsString(), part, -1, false).size()) - 1);
}

Value JoinMethod(Context& context, const Value& self, const Arguments& arguments) {
  std::string out;
  bool first = true;
  for (const Value& item : arguments.Require(0, "iterable").Iterate()) {
    if (!first) out += self.AsString();
    first = false;
    out += item.AsString();
    if (out.size() > context.limits().output_bytes_max) throw TemplateError("a string is too long");
  }
  return context.MakeString(std::move(out));
}

Value SplitLinesMethod(Context& context, const Value& self, const Arguments& arguments) {
  const Value* keep = arguments.Get(0, "keepends");
  return TextList(context, SplitLines(self.AsString(), keep != nullptr && keep->Truth()));
}

// All characters of a text that is not empty fulfil the test.
template <bool (*kTest)(char32_t)>
Value AllMethod(Context& context, const Value& self, const Arguments&) {
  std::u32string characters = ToCharacters(self.AsString());
  context.Step(static_cast<int64_t>(characters.size() / 64));
  return Value::Bool(!characters.empty() && std::all_of(characters.begin(), characters.end(), kTest));
}

bool IsDecimal(char32_t c) { return c >= U'0' && c <= U'9'; }
bool IsAlphabetic(char32_t c) { return IsWordCharacter(c) && !IsDecimal(c) && c != U'_'; }
bool IsAlphanumeric(char32_t c) { return IsWordCharacter(c) && c != U'_'; }

template <Case to>
Value IsCase(Context&, const Value& self, const Arguments&) {
  const std::string& text = self.AsString();
  Case other = to == Case::kUpper ? Case::kLower : Case::kUpper;
  return Value::Bool(ChangeCase(text, to) == text && ChangeCase(text, other) != text);
}

Value ItemsMethod(Context& context, const Value& self, const Arguments&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.AsDict()) items.push_back(Value::List({Value::String(key), value}));
  return context.MakeList(std::move(items));
}

Value KeysMethod(Context& context, const Value& self, const Arguments&) { return context.MakeList(self.Iterate()); }

Value ValuesMethod(Context& context, const Value& self, const Arguments&) {
  std::vector<Value> items;
  for (const auto& item : self.AsDict()) items.push_back(item.second);
  return context.MakeList(std::move(items));
}

Value GetMethod(Context&, const Value& self, const Arguments& arguments) {
  const Value& key = arguments.Require(0, "key");
  const Value* found = key.IsString() ? self.Find(key.AsString()) : nullptr;
  if (found != nullptr) return *found;
  const Value* otherwise = arguments.Get(1, "default");
  return otherwise == nullptr ? Value::None() : *otherwise;
}

Value CopyMethod(Context&, const Value& self, const Arguments&) { return self; }

Value IndexOfItem(Context& context, const Value& self, const Arguments& arguments) {
  const std::vector<Value>& items = self.AsList();
  context.Step(static_cast<int64_t>(items.size()));
  auto found = std::find(items.begin(), items.end(), arguments.Require(0, "value"));
  if (found == items.end()) throw TemplateError("index: the item is not there");
  return Value::Int(found - items.begin());
}

Value Refused(Context&, const Value& self, const Arguments&) {
  throw TemplateError("values cannot be changed in a template (" + self.KindName() + "); use a namespace");
}

const std::map<std::string, Method>& MethodsOf(const Value& value) {
  static const std::map<std::string, Method> none;
  static const std::map<std::string, Method> text = {
      {"strip", StripMethod<true, true>},
      {"lstrip", StripMethod<true, false>},
      {"rstrip", StripMethod<false, true>},
      {"upper", CaseMethod<Case::kUpper>},
      {"lower", CaseMethod<Case::kLower>},
      {"title", CaseMethod<Case::kTitle>},
      {"capitalize", CaseMethod<Case::kCapital>},
      {"split", SplitMethod<false>},
      {"rsplit", SplitMethod<true>},
      {"startswith", BoundaryMethod<false>},
      {"endswith", BoundaryMethod<true>},
      {"removeprefix", RemoveMethod<false>},
      {"removesuffix", RemoveMethod<true>},
      {"find", FindText<false, false>},
      {"rfind", FindText<true, false>},
      {"index", FindText<false, true>},
      {"rindex", FindText<true, true>},
      {"replace", ReplaceMethod},
      {"count", CountMethod},
      {"join", JoinMethod},
      {"splitlines", SplitLinesMethod},
      {"isdigit", AllMethod<IsDecimal>},
      {"isdecimal", AllMethod<IsDecimal>},
      {"isnumeric", AllMethod<IsDecimal>},
      {"isalpha", AllMethod<IsAlphabetic>},
      {"isalnum", AllMethod<IsAlphanumeric>},
      {"isspace", AllMethod<IsWhiteSpace>},
      {"isupper", IsCase<Case::kUpper>},
      {"islower", IsCase<Case::kLower>},
  };
  static const std::map<std::string, Method> dict = {
      {"items", ItemsMethod}, {"keys", KeysMethod}, {"values", ValuesMethod}, {"get", GetMethod},
      {"copy", CopyMethod},   {"pop", Refused},     {"update", Refused},      {"setdefault", Refused},
      {"popitem", Refused},   {"clear", Refused},
  };
  static const std::map<std::string, Method> list = {
      {"count", CountMethod}, {"index", IndexOfItem}, {"copy", CopyMethod}, {"append", Refused},
      {"extend", Refused},    {"insert", Refused},    {"pop", Refused},     {"remove", Refused},
      {"sort", Refused},      {"reverse", Refused},   {"clear", Refused},
  };
  if (value.IsString()) return text;
  if (value.IsDict()) return dict;
  return value.IsList() ? list : none;
}

}  // namespace

Value FindMethod(const Value& value, const std::string& name) {
  const std::map<std::string, Method>& methods = MethodsOf(value);
  auto found = methods.find(name);
  if (found == methods.end()) return Value::Missing(name);
  Method method = found->second;
  auto call = [value, method](Context& context, const Arguments& arguments) {
    context.Step(value.IsString() ? static_cast<int64_t>(value.AsString().size() / 64) : 1);
    return method(context, value, arguments);
  };
  return Value::Of(std::make_shared<const Function>(Function{name, call, value.depth() + 1}));
}

}  // namespace troupe::jinja
