// SPDX-License-Identifier: Apache-2.0
// Values of the template language, with Python's meaning of truth, equality, order and text.
#include "actors/tokenizer/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "actors/tokenizer/utf8.h"
#include "nlohmann/json.hpp"

namespace troupe::jinja {
namespace {

constexpr int kDepthMax = 100;  // of nested lists and dicts: what walks them recurses

constexpr size_t kIteratedBytesMax = 1 << 20;

int CheckDepth(int depth) {
  if (depth > kDepthMax) throw TemplateError("values are nested too deeply");
  return depth;
}

[[noreturn]] void WrongKind(const Value& value, const char* expected) {
  if (value.IsUndefined()) throw TemplateError(value.UndefinedName() + " is undefined");
  throw TemplateError("expected " + std::string(expected) + ", not " + value.KindName());
}

std::string Quoted(const std::string& text) {
  char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (c == quote) out += '\\';
        out += c;
    }
  }
  return out + quote;
}

}  // namespace

void Object::SetAttribute(const std::string& name, Value) {
  throw TemplateError("cannot set '" + name + "': only a namespace's attributes can be set");
}

Value Value::None() { return Value(Data(std::monostate())); }
Value Value::Missing(const std::string& name) {
  return Value(Data(Undefined{std::make_shared<const std::string>(name)}));
}
Value Value::Bool(bool value) { return Value(Data(value)); }
Value Value::Int(int64_t value) { return Value(Data(value)); }
Value Value::Float(double value) { return Value(Data(value)); }
Value Value::String(std::string text) { return Value(Data(std::make_shared<const std::string>(std::move(text)))); }
Value Value::Of(std::shared_ptr<Object> object) { return Value(Data(std::move(object))); }
Value Value::Of(std::shared_ptr<const Function> function) { return Value(Data(std::move(function))); }

Value Value::List(std::vector<Value> items) {
  auto body = std::make_shared<ListBody>();
  for (const Value& item : items) body->depth = std::max(body->depth, item.depth() + 1);
  CheckDepth(body->depth);
  body->items = std::move(items);
  return Value(Data(ListPtr(std::move(body))));
}

Value Value::Dict(std::vector<std::pair<std::string, Value>> items) {
  auto body = std::make_shared<DictBody>();
  for (const auto& item : items) body->depth = std::max(body->depth, item.second.depth() + 1);
  CheckDepth(body->depth);
  body->items = std::move(items);
  return Value(Data(DictPtr(std::move(body))));
}

int Value::depth() const {
  if (IsList()) return std::get<ListPtr>(data_)->depth;
  if (IsObject()) return AsObject().depth();
  if (IsFunction()) return AsFunction().depth;
  return IsDict() ? std::get<DictPtr>(data_)->depth : 0;
}

Value Value::FromJson(const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return Bool(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
    case nlohmann::json::value_t::number_unsigned:
      return Int(json.get<int64_t>());
    case nlohmann::json::value_t::number_float:
      return Float(json.get<double>());
    case nlohmann::json::value_t::string: {
      std::string text = json.get<std::string>();
      return String(TakeLossyUtf8(text, false));
    }
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(FromJson(item));
      return List(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      std::vector<std::pair<std::string, Value>> items;
      for (const auto& [key, item] : json.items()) items.emplace_back(key, FromJson(item));
      return Dict(std::move(items));
    }
    default:
      return None();
  }
}

int64_t Value::AsInt() const {
  if (IsBool()) return std::get<bool>(data_);
  if (!IsInt()) WrongKind(*this, "a whole number");
  return std::get<int64_t>(data_);
}

double Value::AsFloat() const {
  if (IsFloat()) return std::get<double>(data_);
  if (!IsNumber()) WrongKind(*this, "a number");
  return static_cast<double>(AsInt());
}

const std::string& Value::AsString() const {
  if (!IsString()) WrongKind(*this, "a string");
  return *std::get<StringPtr>(data_);
}

const std::vector<Value>& Value::AsList() const {
  if (!IsList()) WrongKind(*this, "a list");
  return std::get<ListPtr>(data_)->items;
}

const std::vector<std::pair<std::string, Value>>& Value::AsDict() const {
  if (!IsDict()) WrongKind(*this, "a mapping");
  return std::get<DictPtr>(data_)->items;
}

Object& Value::AsObject() const {
  if (!IsObject()) WrongKind(*this, "an object");
  return *std::get<ObjectPtr>(data_);
}

const Function& Value::AsFunction() const {
  if (!IsFunction()) WrongKind(*this, "something that can be called");
  return *std::get<FunctionPtr>(data_);
}

const Value* Value::Find(std::string_view key) const {
  for (const auto& [name, value] : AsDict()) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string Value::UndefinedName() const {
  const auto& undefined = std::get<Undefined>(data_);
  return undefined.name == nullptr ? "a value" : "'" + *undefined.name + "'";
}

bool Value::Truth() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsBool()) return std::get<bool>(data_);
  if (IsInt()) return std::get<int64_t>(data_) != 0;
  if (IsFloat()) return std::get<double>(data_) != 0;
  if (IsString()) return !AsString().empty();
  if (IsList()) return !AsList().empty();
  if (IsDict()) return !AsDict().empty();
  return true;
}

std::string Value::KindName() const {
  constexpr const char* kNames[] = {"undefined", "None", "bool", "int",    "float",
                                    "str",       "list", "dict", "object", "function"};
  return kNames[data_.index()];
}

std::string Value::Text() const {
  if (IsUndefined()) return "";
  return IsString() ? AsString() : Repr();
}

std::string Value::Repr() const {
  if (IsUndefined()) return "Undefined";
  if (IsNone()) return "None";
  if (IsBool()) return Truth() ? "True" : "False";
  if (IsInt()) return std::to_string(AsInt());
  if (IsFloat()) return FloatText(AsFloat());
  if (IsString()) return Quoted(AsString());
  if (IsObject()) return AsObject().Text();
  if (IsFunction()) return "<function " + AsFunction().name + ">";
  std::string out;
  if (IsList()) {
    for (const Value& item : AsList()) out += (out.empty() ? "" : ", ") + item.Repr();
    return "[" + out + "]";
  }
  for (const auto& [key, item] : AsDict()) out += (out.empty() ? "" : ", ") + Quoted(key) + ": " + item.Repr();
  return "{" + out + "}";
}

nlohmann::ordered_json Value::ToJson() const {
  if (IsNone()) return nullptr;
  if (IsBool()) return Truth();
  if (IsInt()) return AsInt();
  if (IsFloat()) return AsFloat();
  if (IsString()) return AsString();
  nlohmann::ordered_json out;
  if (IsList()) {
    out = nlohmann::ordered_json::array();
    for (const Value& item : AsList()) out.push_back(item.ToJson());
    return out;
  }
  if (!IsDict()) throw TemplateError(KindName() + " cannot be written as JSON");
  out = nlohmann::ordered_json::object();
  for (const auto& [key, item] : AsDict()) out[key] = item.ToJson();
  return out;
}

std::vector<Value> Value::Iterate() const {
  std::vector<Value> out;
  if (IsUndefined()) return out;
  if (IsList()) return AsList();
  if (IsDict()) {
    for (const auto& item : AsDict()) out.push_back(String(item.first));
    return out;
  }
  if (!IsString()) WrongKind(*this, "something to iterate over");
  std::string_view text = AsString();
  if (text.size() > kIteratedBytesMax) throw TemplateError("a string is too long to iterate over");
  while (!text.empty()) {
    size_t length = ReadUtf8(text).length;
    out.push_back(String(std::string(text.substr(0, length))));
    text.remove_prefix(length);
  }
  return out;
}

bool operator==(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? a.AsFloat() == b.AsFloat() : a.AsInt() == b.AsInt();
  }
  if (a.data_.index() != b.data_.index()) return false;
  if (a.IsString()) return a.AsString() == b.AsString();
  if (a.IsList()) return a.AsList() == b.AsList();
  if (a.IsDict()) {
    if (a.AsDict().size() != b.AsDict().size()) return false;
    return std::all_of(a.AsDict().begin(), a.AsDict().end(), [&](const auto& item) {
      const Value* other = b.Find(item.first);
      return other != nullptr && *other == item.second;
    });
  }
  if (a.IsObject()) return &a.AsObject() == &b.AsObject();
  if (a.IsFunction()) return &a.AsFunction() == &b.AsFunction();
  return true;  // both undefined, or both None
}

int Value::Compare(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (!a.IsFloat() && !b.IsFloat()) return a.AsInt() < b.AsInt() ? -1 : a.AsInt() > b.AsInt();
    return a.AsFloat() < b.AsFloat() ? -1 : a.AsFloat() > b.AsFloat();
  }
  if (a.IsString() && b.IsString()) {  // bytes of UTF-8 are in the order of their characters
    int order = a.AsString().compare(b.AsString());
    return order < 0 ? -1 : order > 0;
  }
  if (a.IsList() && b.IsList()) {
    for (size_t i = 0; i < std::min(a.AsList().size(), b.AsList().size()); ++i) {
      int order = Compare(a.AsList()[i], b.AsList()[i]);
      if (order != 0) return order;
    }
    return a.AsList().size() < b.AsList().size() ? -1 : a.AsList().size() > b.AsList().size();
  }
  throw TemplateError("'" + a.KindName() + "' and '" + b.KindName() + "' have no order");
}

const Value* Arguments::Get(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [given, value] : named) {
    if (given == name) return &value;
  }
  return nullptr;
}

const Value& Arguments::Require(size_t index, std::string_view name) const {
  const Value* value = Get(index, name);
  if (value == nullptr) throw TemplateError("the argument '" + std::string(name) + "' is missing");
  return *value;
}

std::u32string ToCharacters(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    Utf8Character character = ReadUtf8(text);
    out += character.code;
    text.remove_prefix(character.length);
  }
  return out;
}

std::string FromCharacters(std::u32string_view characters) {
  std::string out;
  for (char32_t code : characters) AppendUtf8(code, out);
  return out;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Shortest digits that read back; Python uses an exponent below 1e-4 and from 1e16 on.
  char buffer[64];
  for (int precision = 1; precision <= 17; ++precision) {
    std::snprintf(buffer, sizeof(buffer), "%.*e", precision - 1, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  std::string text = buffer;
  int exponent = std::atoi(text.c_str() + text.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return text;  // 1e+16, 1.5e-05: as Python
  int digits = static_cast<int>(text.find('e')) - (value < 0 ? 1 : 0);
  digits = digits > 1 ? digits - 1 : digits;  // without the point
  std::snprintf(buffer, sizeof(buffer), "%.*f", std::max(1, digits - 1 - exponent), value);
  return buffer;
}

}  // namespace troupe::jinja
