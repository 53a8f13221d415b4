// SPDX-License-Identifier: Apache-2.0
// The functions that templates see by name.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "actors/tokenizer/jinja/builtins.h"

namespace troupe::jinja {
namespace {

Value Range(Context& context, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3) throw TemplateError("range takes 1 to 3 numbers");
  int64_t start = given.size() > 1 ? given[0].AsInt() : 0;
  int64_t stop = given.size() > 1 ? given[1].AsInt() : given[0].AsInt();
  int64_t step = given.size() > 2 ? given[2].AsInt() : 1;
  if (step == 0) throw TemplateError("range's step is zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() >= context.limits().list_items_max) throw TemplateError("a range is too long");
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return context.MakeList(std::move(items));
}

std::vector<std::pair<std::string, Value>> NamedItems(const Arguments& arguments) {
  std::vector<std::pair<std::string, Value>> items;
  if (!arguments.positional.empty()) items = arguments.positional[0].AsDict();
  for (const auto& [name, value] : arguments.named) {
    auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == name; });
    if (found != items.end()) {
      found->second = value;
    } else {
      items.emplace_back(name, value);
    }
  }
  return items;
}

Value MakeNamespace(Context& context, const Arguments& arguments) {
  return context.MakeNamespace(NamedItems(arguments));
}

Value MakeDict(Context& context, const Arguments& arguments) {
  auto items = NamedItems(arguments);
  context.Step(static_cast<int64_t>(items.size()));
  return Value::Dict(std::move(items));
}

Value RaiseException(Context&, const Arguments& arguments) {
  throw TemplateError("the template refuses: " + arguments.Require(0, "message").Text());
}

Value StrftimeNow(Context& context, const Arguments& arguments) {
  const std::string& format = arguments.Require(0, "format").AsString();
  if (format.size() > 1000) throw TemplateError("strftime_now: the format is too long");
  return context.MakeString(absl::FormatTime(format, context.now(), absl::LocalTimeZone()));
}

}  // namespace

Value FindFunction(const std::string& name) {
  static const std::map<std::string, Value (*)(Context&, const Arguments&)> functions = {
      {"range", Range},
      {"namespace", MakeNamespace},
      {"dict", MakeDict},
      {"raise_exception", RaiseException},
      {"strftime_now", StrftimeNow},
  };
  auto found = functions.find(name);
  if (found == functions.end()) return Value::Missing(name);
  return Value::Of(std::make_shared<const Function>(Function{name, found->second, 0}));
}

}  // namespace troupe::jinja
