// SPDX-License-Identifier: Apache-2.0
// Values of the template language, with Python's meaning of truth, equality, order and text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace troupe::jinja {

// Thrown inside this folder only; Template turns it into a status.
struct TemplateError : std::runtime_error {
  explicit TemplateError(const std::string& message, int at_line = 0) : std::runtime_error(message), line(at_line) {}
  int line;  // 0: not known here
};

class Context;
class Value;
struct ListBody;
struct DictBody;
struct Function;

// Something with attributes that are not a dict's: loop, namespaces.
class Object {
 public:
  virtual ~Object() = default;
  virtual Value Attribute(const std::string& name) const = 0;
  virtual void SetAttribute(const std::string& name, Value value);
  virtual std::string Text() const = 0;
  virtual int depth() const { return 0; }  // of what it holds, unless somebody else breaks the chain
};

// Immutable and cheap to copy.
class Value {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> name;  // what was looked for, for errors
  };

  Value() : data_(Undefined()) {}
  static Value None();
  static Value Missing(const std::string& name);
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  static Value String(std::string text);
  static Value List(std::vector<Value> items);                          // nesting is bounded
  static Value Dict(std::vector<std::pair<std::string, Value>> items);  // nesting is bounded
  static Value Of(std::shared_ptr<Object> object);
  static Value Of(std::shared_ptr<const Function> function);
  static Value FromJson(const nlohmann::ordered_json& json);

  bool IsUndefined() const { return std::holds_alternative<Undefined>(data_); }
  bool IsNone() const { return std::holds_alternative<std::monostate>(data_); }
  bool IsBool() const { return std::holds_alternative<bool>(data_); }
  bool IsInt() const { return std::holds_alternative<int64_t>(data_); }
  bool IsFloat() const { return std::holds_alternative<double>(data_); }
  bool IsNumber() const { return IsInt() || IsFloat() || IsBool(); }  // as in Python
  bool IsString() const { return std::holds_alternative<StringPtr>(data_); }
  bool IsList() const { return std::holds_alternative<ListPtr>(data_); }
  bool IsDict() const { return std::holds_alternative<DictPtr>(data_); }
  bool IsObject() const { return std::holds_alternative<ObjectPtr>(data_); }
  bool IsFunction() const { return std::holds_alternative<FunctionPtr>(data_); }

  // Each throws TemplateError if the value is of another kind.
  int64_t AsInt() const;   // a bool too
  double AsFloat() const;  // any number
  const std::string& AsString() const;
  const std::vector<Value>& AsList() const;
  const std::vector<std::pair<std::string, Value>>& AsDict() const;
  Object& AsObject() const;
  const Function& AsFunction() const;

  const Value* Find(std::string_view key) const;  // of a dict; nullptr: none
  bool Truth() const;
  std::string Text() const;               // Python's str(); "" where undefined
  std::string Repr() const;               // Python's repr()
  std::string KindName() const;           // "str", "list", ...
  std::string UndefinedName() const;      // quoted, for errors
  nlohmann::ordered_json ToJson() const;  // throws for what JSON does not have
  std::vector<Value> Iterate() const;     // a list's items, a dict's keys, a string's characters; throws otherwise
  int depth() const;                      // of nesting

  friend bool operator==(const Value& a, const Value& b);
  // Throws unless both are numbers, strings or lists.
  static int Compare(const Value& a, const Value& b);

 private:
  using StringPtr = std::shared_ptr<const std::string>;
  using ListPtr = std::shared_ptr<const ListBody>;
  using DictPtr = std::shared_ptr<const DictBody>;
  using ObjectPtr = std::shared_ptr<Object>;
  using FunctionPtr = std::shared_ptr<const Function>;
  using Data = std::variant<Undefined, std::monostate, bool, int64_t, double, StringPtr, ListPtr, DictPtr, ObjectPtr,
                            FunctionPtr>;

  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;
};

struct ListBody {
  std::vector<Value> items;
  int depth = 1;
};

struct DictBody {
  std::vector<std::pair<std::string, Value>> items;  // in order of insertion
  int depth = 1;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at `index` or called `name`; nullptr if it was not given.
  const Value* Get(size_t index, std::string_view name) const;
  const Value& Require(size_t index, std::string_view name) const;
};

struct Function {
  std::string name;
  std::function<Value(Context&, const Arguments&)> call;
  int depth = 0;  // of the value that a method is bound to, plus 1
};

// Strings count in characters, as in Python.
std::u32string ToCharacters(std::string_view text);
std::string FromCharacters(std::u32string_view characters);

// Python's repr of a float: the shortest decimal that reads back, always with a point or an exponent.
std::string FloatText(double value);

}  // namespace troupe::jinja
