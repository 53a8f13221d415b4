// SPDX-License-Identifier: Apache-2.0
// Filters of single values: text, numbers, JSON. Those of lists are in list_filters.cc.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "actors/tokenizer/jinja/builtins.h"
#include "actors/tokenizer/jinja/list_filters.h"
#include "actors/tokenizer/jinja/text_functions.h"

namespace troupe::jinja {
namespace {

bool Flag(const Arguments& arguments, size_t index, const char* name, bool otherwise) {
  const Value* value = arguments.Get(index, name);
  return value == nullptr ? otherwise : value->Truth();
}

Value Trim(Context& context, const Value& value, const Arguments& arguments) {
  const Value* chars = arguments.Get(0, "chars");
  return context.MakeString(
      Strip(value.Text(), chars == nullptr || chars->IsNone() ? "" : chars->AsString(), true, true));
}

template <Case to>
Value ToCase(Context& context, const Value& value, const Arguments&) {
  return context.MakeString(ChangeCase(value.Text(), to));
}

Value Length(Context& context, const Value& value, const Arguments&) {
  if (value.IsUndefined()) return Value::Int(0);
  if (value.IsDict()) return Value::Int(static_cast<int64_t>(value.AsDict().size()));
  if (value.IsList()) return Value::Int(static_cast<int64_t>(value.AsList().size()));
  context.Step(static_cast<int64_t>(value.AsString().size() / 64));
  return Value::Int(static_cast<int64_t>(CountCharacters(value.AsString())));
}

Value Replace(Context& context, const Value& value, const Arguments& arguments) {
  const Value* count = arguments.Get(2, "count");
  return context.MakeString(
      ReplaceText(value.Text(), arguments.Require(0, "old").AsString(), arguments.Require(1, "new").AsString(),
                  count == nullptr || count->IsNone() ? -1 : count->AsInt(), context.limits().output_bytes_max));
}

Value Default(Context&, const Value& value, const Arguments& arguments) {
  bool use = value.IsUndefined() || (Flag(arguments, 1, "boolean", false) && !value.Truth());
  const Value* otherwise = arguments.Get(0, "default_value");
  if (!use) return value;
  return otherwise == nullptr ? Value::String("") : *otherwise;
}

Value ToJsonFilter(Context& context, const Value& value, const Arguments& arguments) {
  const Value* indent = arguments.Get(1, "indent");
  // Transformers' tojson takes (ensure_ascii, indent, separators, sort_keys); templates name them, or give the indent
  // alone.
  if (indent == nullptr && arguments.positional.size() == 1 && arguments.positional[0].IsInt())
    indent = &arguments.positional[0];
  int width =
      indent == nullptr || indent->IsNone() ? -1 : static_cast<int>(std::clamp<int64_t>(indent->AsInt(), 0, 16));
  return context.MakeString(JsonText(value, width, Flag(arguments, 3, "sort_keys", false)));
}

Value ToStringFilter(Context& context, const Value& value, const Arguments&) {
  return context.MakeString(value.Text());
}

Value ToInt(Context&, const Value& value, const Arguments& arguments) {
  const Value* otherwise = arguments.Get(0, "default");
  Value failed = otherwise == nullptr ? Value::Int(0) : *otherwise;
  if (value.IsFloat()) {
    double number = value.AsFloat();
    return std::isfinite(number) && std::abs(number) < 9e18 ? Value::Int(static_cast<int64_t>(number)) : failed;
  }
  if (value.IsNumber()) return Value::Int(value.AsInt());
  if (!value.IsString()) return failed;
  std::string text = Strip(value.AsString(), "", true, true);
  int64_t number = 0;
  const char* begin = text.data() + (text.empty() || text[0] != '+' ? 0 : 1);
  auto result = std::from_chars(begin, text.data() + text.size(), number);
  if (result.ec == std::errc() && result.ptr == text.data() + text.size()) return Value::Int(number);
  char* end = nullptr;
  double real = std::strtod(text.c_str(), &end);
  bool whole_text = !text.empty() && *end == 0 && std::isfinite(real) && std::abs(real) < 9e18;
  return whole_text ? Value::Int(static_cast<int64_t>(real)) : failed;
}

Value ToFloat(Context&, const Value& value, const Arguments& arguments) {
  if (value.IsNumber()) return Value::Float(value.AsFloat());
  const Value* otherwise = arguments.Get(0, "default");
  std::string text = value.IsString() ? Strip(value.AsString(), "", true, true) : "";
  char* end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == 0) return Value::Float(number);
  return otherwise == nullptr ? Value::Float(0) : *otherwise;
}

Value Abs(Context& context, const Value& value, const Arguments&) {
  if (value.IsFloat()) return Value::Float(std::abs(value.AsFloat()));
  return value.AsInt() < 0 ? Arithmetic(context, "-", Value::Int(0), value) : value;
}

Value Round(Context&, const Value& value, const Arguments& arguments) {
  const Value* precision = arguments.Get(0, "precision");
  const Value* method = arguments.Get(1, "method");
  double scale = std::pow(
      10.0, precision == nullptr ? 0.0 : static_cast<double>(std::clamp<int64_t>(precision->AsInt(), -300, 300)));
  double scaled = value.AsFloat() * scale;
  std::string how = method == nullptr ? "common" : method->AsString();
  double rounded = how == "floor" ? std::floor(scaled) : how == "ceil" ? std::ceil(scaled) : std::nearbyint(scaled);
  return Value::Float(rounded / scale);
}

Value Indent(Context& context, const Value& value, const Arguments& arguments) {
  const Value* width = arguments.Get(0, "width");
  std::string prefix = width == nullptr ? std::string(4, ' ')
                       : width->IsString()
                           ? width->AsString()
                           : std::string(static_cast<size_t>(std::clamp<int64_t>(width->AsInt(), 0, 1000)), ' ');
  bool first = Flag(arguments, 1, "first", false), blank = Flag(arguments, 2, "blank", false);
  std::string out;
  bool is_first = true;
  for (const std::string& line : SplitLines(value.Text() + "\n", false)) {
    if (!is_first) out += '\n';
    if (is_first ? first : (blank || !line.empty())) out += prefix;
    is_first = false;
    out += line;
    if (out.size() > context.limits().output_bytes_max) throw TemplateError("a string is too long");
  }
  return context.MakeString(std::move(out));
}

Value Escape(Context& context, const Value& value, const Arguments&) {
  std::string out;
  for (char c : value.Text()) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return context.MakeString(std::move(out));
}

Value Same(Context&, const Value& value, const Arguments&) { return value; }

// "%s has %d" | format(a, b): %s, %d and %% only.
Value Format(Context& context, const Value& value, const Arguments& arguments) {
  const std::string& format = value.AsString();
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    char kind = i + 1 < format.size() ? format[++i] : ' ';
    if (kind == '%') {
      out += '%';
    } else if (kind == 's') {
      out += arguments.Require(next++, "value").Text();
    } else if (kind == 'd') {
      out += std::to_string(arguments.Require(next++, "value").AsInt());
    } else {
      throw TemplateError(std::string("format: '%") + kind + "' is not supported");
    }
    if (out.size() > context.limits().output_bytes_max) throw TemplateError("a string is too long");
  }
  return context.MakeString(std::move(out));
}

}  // namespace

Filter FindFilter(const std::string& name) {
  static const std::map<std::string, Filter> filters = {
      {"trim", Trim},
      {"upper", ToCase<Case::kUpper>},
      {"lower", ToCase<Case::kLower>},
      {"title", ToCase<Case::kTitle>},
      {"capitalize", ToCase<Case::kCapital>},
      {"length", Length},
      {"count", Length},
      {"replace", Replace},
      {"default", Default},
      {"d", Default},
      {"tojson", ToJsonFilter},
      {"string", ToStringFilter},
      {"int", ToInt},
      {"float", ToFloat},
      {"abs", Abs},
      {"round", Round},
      {"indent", Indent},
      {"escape", Escape},
      {"e", Escape},
      {"safe", Same},
      {"format", Format},
  };
  auto found = filters.find(name);
  return found == filters.end() ? FindListFilter(name) : found->second;
}

}  // namespace troupe::jinja
