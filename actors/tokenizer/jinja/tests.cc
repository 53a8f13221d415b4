// SPDX-License-Identifier: Apache-2.0
// What may follow `is` in a template.
#include <map>

#include "actors/tokenizer/jinja/builtins.h"
#include "actors/tokenizer/jinja/text_functions.h"

namespace troupe::jinja {
namespace {

const Value& Other(const Arguments& arguments) { return arguments.Require(0, "other"); }

bool Defined(Context&, const Value& value, const Arguments&) { return !value.IsUndefined(); }
bool NotDefined(Context&, const Value& value, const Arguments&) { return value.IsUndefined(); }
bool IsNone(Context&, const Value& value, const Arguments&) { return value.IsNone(); }
bool IsString(Context&, const Value& value, const Arguments&) { return value.IsString(); }
bool IsNumber(Context&, const Value& value, const Arguments&) { return value.IsNumber(); }
bool IsInteger(Context&, const Value& value, const Arguments&) { return value.IsInt(); }
bool IsFloat(Context&, const Value& value, const Arguments&) { return value.IsFloat(); }
bool IsBoolean(Context&, const Value& value, const Arguments&) { return value.IsBool(); }
bool IsTrue(Context&, const Value& value, const Arguments&) { return value.IsBool() && value.Truth(); }
bool IsFalse(Context&, const Value& value, const Arguments&) { return value.IsBool() && !value.Truth(); }
bool IsMapping(Context&, const Value& value, const Arguments&) { return value.IsDict(); }
// As Jinja has it: what has a length and items by index, so strings and mappings too.
bool IsSequence(Context&, const Value& value, const Arguments&) {
  return value.IsList() || value.IsString() || value.IsDict();
}
bool IsCallable(Context&, const Value& value, const Arguments&) { return value.IsFunction(); }
bool Equal(Context&, const Value& value, const Arguments& arguments) { return value == Other(arguments); }
bool NotEqual(Context&, const Value& value, const Arguments& arguments) { return !(value == Other(arguments)); }
bool Less(Context&, const Value& value, const Arguments& a) { return Value::Compare(value, Other(a)) < 0; }
bool AtMost(Context&, const Value& value, const Arguments& a) { return Value::Compare(value, Other(a)) <= 0; }
bool Greater(Context&, const Value& value, const Arguments& a) { return Value::Compare(value, Other(a)) > 0; }
bool AtLeast(Context&, const Value& value, const Arguments& a) { return Value::Compare(value, Other(a)) >= 0; }
bool In(Context& context, const Value& value, const Arguments& a) { return Contains(context, Other(a), value); }
bool Odd(Context&, const Value& value, const Arguments&) { return value.AsInt() % 2 != 0; }
bool Even(Context&, const Value& value, const Arguments&) { return value.AsInt() % 2 == 0; }
bool DivisibleBy(Context& context, const Value& value, const Arguments& arguments) {
  return Arithmetic(context, "%", Value::Int(value.AsInt()), Value::Int(Other(arguments).AsInt())).AsInt() == 0;
}
bool IsLower(Context&, const Value& value, const Arguments&) {
  return ChangeCase(value.Text(), Case::kLower) == value.Text() &&
         ChangeCase(value.Text(), Case::kUpper) != value.Text();
}
bool IsUpper(Context&, const Value& value, const Arguments&) {
  return ChangeCase(value.Text(), Case::kUpper) == value.Text() &&
         ChangeCase(value.Text(), Case::kLower) != value.Text();
}

}  // namespace

Test FindTest(const std::string& name) {
  static const std::map<std::string, Test> tests = {
      {"defined", Defined},
      {"undefined", NotDefined},
      {"none", IsNone},
      {"string", IsString},
      {"number", IsNumber},
      {"integer", IsInteger},
      {"float", IsFloat},
      {"boolean", IsBoolean},
      {"true", IsTrue},
      {"false", IsFalse},
      {"mapping", IsMapping},
      {"sequence", IsSequence},
      {"iterable", IsSequence},
      {"callable", IsCallable},
      {"eq", Equal},
      {"equalto", Equal},
      {"==", Equal},
      {"sameas", Equal},
      {"ne", NotEqual},
      {"!=", NotEqual},
      {"lt", Less},
      {"lessthan", Less},
      {"<", Less},
      {"le", AtMost},
      {"<=", AtMost},
      {"gt", Greater},
      {"greaterthan", Greater},
      {">", Greater},
      {"ge", AtLeast},
      {">=", AtLeast},
      {"in", In},
      {"odd", Odd},
      {"even", Even},
      {"divisibleby", DivisibleBy},
      {"lower", IsLower},
      {"upper", IsUpper},
  };
  auto found = tests.find(name);
  return found == tests.end() ? nullptr : found->second;
}

}  // namespace troupe::jinja
