// SPDX-License-Identifier: Apache-2.0
// Operators, indices and slices, as Python has them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/tokenizer/jinja/builtins.h"

namespace troupe::jinja {
namespace {

[[noreturn]] void Unsupported(const std::string& op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->IsUndefined()) throw TemplateError(value->UndefinedName() + " is undefined");
  }
  throw TemplateError("'" + op + "' does not work on '" + a.KindName() + "' and '" + b.KindName() + "'");
}

[[noreturn]] void TooLarge() { throw TemplateError("a whole number is too large"); }

int64_t Add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) TooLarge();
  return out;
}

int64_t Subtract(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) TooLarge();
  return out;
}

int64_t Multiply(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) TooLarge();
  return out;
}

// Python rounds quotients towards minus infinity.
int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0) throw TemplateError("division by zero");
  if (a == std::numeric_limits<int64_t>::min() && b == -1) TooLarge();
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

Value Power(int64_t base, int64_t exponent) {
  if (exponent < 0) return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = Multiply(result, base);
    if (exponent > 1) base = Multiply(base, base);
  }
  return Value::Int(result);
}

Value IntArithmetic(const std::string& op, int64_t a, int64_t b) {
  if (op == "+") return Value::Int(Add(a, b));
  if (op == "-") return Value::Int(Subtract(a, b));
  if (op == "*") return Value::Int(Multiply(a, b));
  if (op == "//") return Value::Int(FloorDivide(a, b));
  if (op == "%") return Value::Int(b == -1 ? 0 : a - FloorDivide(a, b) * b);
  if (op == "**") return Power(a, b);
  if (b == 0) throw TemplateError("division by zero");
  return Value::Float(static_cast<double>(a) / static_cast<double>(b));
}

Value FloatArithmetic(const std::string& op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") return Value::Float(std::pow(a, b));
  if (b == 0) throw TemplateError("division by zero");
  if (op == "//") return Value::Float(std::floor(a / b));
  if (op == "%") return Value::Float(a - std::floor(a / b) * b);
  return Value::Float(a / b);
}

// text * count, list * count.
Value Repeat(Context& context, const Value& value, int64_t count) {
  size_t times = count < 0 ? 0 : static_cast<size_t>(count);
  if (value.IsString()) {
    const std::string& text = value.AsString();
    if (!text.empty() && times > context.limits().output_bytes_max / text.size())
      throw TemplateError("a string is too long");
    std::string out;
    for (size_t i = 0; i < times && !text.empty(); ++i) out += text;
    return context.MakeString(std::move(out));
  }
  const std::vector<Value>& items = value.AsList();
  if (!items.empty() && times > context.limits().list_items_max / items.size())
    throw TemplateError("a list is too long");
  std::vector<Value> out;
  for (size_t i = 0; i < times && !items.empty(); ++i) out.insert(out.end(), items.begin(), items.end());
  return context.MakeList(std::move(out));
}

// An index from the end where negative; false if there is no such item.
bool ToOffset(int64_t index, size_t size, size_t& offset) {
  if (index < 0) index += static_cast<int64_t>(size);
  offset = static_cast<size_t>(index);
  return index >= 0 && offset < size;
}

// The items that Python's slice takes, in its order.
template <typename Sequence>
Sequence Slice(const Sequence& items, const Value& start, const Value& stop, const Value& step) {
  int64_t size = static_cast<int64_t>(items.size());
  int64_t by = step.IsNone() ? 1 : step.AsInt();
  if (by == 0) throw TemplateError("a slice's step is zero");
  by = std::clamp(by, -(size + 1), size + 1);  // further is no different
  auto bound = [&](const Value& value, int64_t otherwise) {
    if (value.IsNone()) return otherwise;
    int64_t at = value.AsInt();
    if (at < 0) at = std::max(at, -size - 1) + size;
    return by > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  int64_t from = bound(start, by > 0 ? 0 : size - 1), to = bound(stop, by > 0 ? size : -1);
  Sequence out;
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by) out.push_back(items[static_cast<size_t>(i)]);
  return out;
}

}  // namespace

Value GetAttribute(const Value& value, const std::string& name) {
  if (value.IsUndefined()) throw TemplateError(value.UndefinedName() + " is undefined, so it has no '" + name + "'");
  if (value.IsObject()) return value.AsObject().Attribute(name);
  Value method = FindMethod(value, name);  // as in Jinja, `.items` of a dict is the method
  if (!method.IsUndefined()) return method;
  const Value* item = value.IsDict() ? value.Find(name) : nullptr;
  return item != nullptr ? *item : Value::Missing(name);
}

Value GetItem(Context& context, const Value& value, const Value& index) {
  if (value.IsUndefined()) throw TemplateError(value.UndefinedName() + " is undefined, so it has no items");
  if (value.IsDict()) {
    const Value* item = index.IsString() ? value.Find(index.AsString()) : nullptr;
    if (item != nullptr) return *item;
    return index.IsString() ? FindMethod(value, index.AsString()) : Value::Missing(index.Text());
  }
  if (index.IsString()) return GetAttribute(value, index.AsString());
  size_t offset = 0;
  if (value.IsList() && index.IsNumber()) {
    if (ToOffset(index.AsInt(), value.AsList().size(), offset)) return value.AsList()[offset];
  } else if (value.IsString() && index.IsNumber()) {
    context.Step(static_cast<int64_t>(value.AsString().size() / 64));
    std::u32string characters = ToCharacters(value.AsString());
    if (ToOffset(index.AsInt(), characters.size(), offset))
      return Value::String(FromCharacters({&characters[offset], 1}));
  }
  return Value::Missing("item " + index.Text());
}

Value GetSlice(Context& context, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.IsString()) {
    context.Step(static_cast<int64_t>(value.AsString().size() / 64));
    return context.MakeString(FromCharacters(Slice(ToCharacters(value.AsString()), start, stop, step)));
  }
  return context.MakeList(Slice(value.AsList(), start, stop, step));
}

Value Arithmetic(Context& context, const std::string& op, const Value& a, const Value& b) {
  if (op == "~") return context.MakeString(a.Text() + b.Text());
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? FloatArithmetic(op, a.AsFloat(), b.AsFloat())
                                      : IntArithmetic(op, a.AsInt(), b.AsInt());
  }
  if (op == "+" && a.IsString() && b.IsString()) return context.MakeString(a.AsString() + b.AsString());
  if (op == "+" && a.IsList() && b.IsList()) {
    std::vector<Value> items = a.AsList();
    items.insert(items.end(), b.AsList().begin(), b.AsList().end());
    return context.MakeList(std::move(items));
  }
  if (op == "*" && (a.IsString() || a.IsList()) && b.IsNumber() && !b.IsFloat()) return Repeat(context, a, b.AsInt());
  if (op == "*" && (b.IsString() || b.IsList()) && a.IsNumber() && !a.IsFloat()) return Repeat(context, b, a.AsInt());
  Unsupported(op, a, b);
}

bool Contains(Context& context, const Value& container, const Value& item) {
  if (container.IsUndefined()) return false;
  if (container.IsString()) {
    context.Step(static_cast<int64_t>(container.AsString().size() / 64));
    return container.AsString().find(item.AsString()) != std::string::npos;
  }
  if (container.IsDict()) return item.IsString() && container.Find(item.AsString()) != nullptr;
  const std::vector<Value>& items = container.AsList();
  context.Step(static_cast<int64_t>(items.size()));
  return std::find(items.begin(), items.end(), item) != items.end();
}

}  // namespace troupe::jinja
