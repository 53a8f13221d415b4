// SPDX-License-Identifier: Apache-2.0
// Values as JSON, as Python's json.dumps(ensure_ascii=False) writes it: ", " and ": " between, or one item a line.
#include <algorithm>
#include <utility>

#include "actors/tokenizer/jinja/builtins.h"
#include "nlohmann/json.hpp"

namespace troupe::jinja {
namespace {

class Writer {
 public:
  Writer(int indent, bool sort_keys) : indent_(indent), sort_keys_(sort_keys) {}

  void Write(const Value& value) {
    if (value.IsDict()) {
      auto items = value.AsDict();
      if (sort_keys_) {
        std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      }
      Sequence('{', '}', items.size(), [&](size_t i) {
        out_ += nlohmann::json(items[i].first).dump() + ": ";
        Write(items[i].second);
      });
    } else if (value.IsList()) {
      const std::vector<Value>& items = value.AsList();
      Sequence('[', ']', items.size(), [&](size_t i) { Write(items[i]); });
    } else if (value.IsFloat()) {
      std::string text = FloatText(value.AsFloat());
      out_ += text == "nan" ? "NaN" : text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
    } else if (value.IsUndefined()) {
      throw TemplateError(value.UndefinedName() + " is undefined and cannot be written as JSON");
    } else {
      out_ += value.ToJson().dump();
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  template <typename WriteItem>
  void Sequence(char open, char close, size_t count, WriteItem write) {
    out_ += open;
    ++level_;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_ += indent_ < 0 ? ", " : ",";
      NewLine();
      write(i);
    }
    --level_;
    if (count > 0) NewLine();
    out_ += close;
  }
  void NewLine() {
    if (indent_ >= 0) out_ += "\n" + std::string(static_cast<size_t>(level_) * static_cast<size_t>(indent_), ' ');
  }

  int indent_;
  bool sort_keys_;
  int level_ = 0;
  std::string out_;
};

}  // namespace

std::string JsonText(const Value& value, int indent, bool sort_keys) {
  Writer writer(std::min(indent, 16), sort_keys);
  writer.Write(value);
  return writer.Take();
}

}  // namespace troupe::jinja
