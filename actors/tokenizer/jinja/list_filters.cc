// SPDX-License-Identifier: Apache-2.0
// Filters of lists and mappings.
#include "actors/tokenizer/jinja/list_filters.h"

#include <algorithm>
#include <map>
#include <utility>

#include "actors/tokenizer/jinja/text_functions.h"

namespace troupe::jinja {
namespace {

std::vector<Value> Items(Context& context, const Value& value) {
  std::vector<Value> items = value.Iterate();
  context.Step(static_cast<int64_t>(items.size()));
  return items;
}

// `a.b.0` of a value; undefined where a part is missing.
Value Path(Context& context, Value value, const Value& path) {
  if (path.IsInt()) return GetItem(context, value, path);
  for (const std::string& part : SplitText(path.AsString(), ".", -1, false)) {
    bool is_index = !part.empty() && part.size() < 10 && std::all_of(part.begin(), part.end(), ::isdigit);
    value = GetItem(context, value, is_index ? Value::Int(std::stoi(part)) : Value::String(part));
    if (value.IsUndefined()) break;
  }
  return value;
}

Value Join(Context& context, const Value& value, const Arguments& arguments) {
  const Value* separator = arguments.Get(0, "d");
  const Value* attribute = arguments.Get(1, "attribute");
  std::string out;
  bool first = true;
  for (const Value& item : Items(context, value)) {
    if (!first && separator != nullptr) out += separator->Text();
    first = false;
    out += (attribute == nullptr ? item : Path(context, item, *attribute)).Text();
    if (out.size() > context.limits().output_bytes_max) throw TemplateError("a string is too long");
  }
  return context.MakeString(std::move(out));
}

Value First(Context& context, const Value& value, const Arguments&) {
  std::vector<Value> items = Items(context, value);
  return items.empty() ? Value::Missing("the first of nothing") : items.front();
}

Value Last(Context& context, const Value& value, const Arguments&) {
  std::vector<Value> items = Items(context, value);
  return items.empty() ? Value::Missing("the last of nothing") : items.back();
}

Value ToList(Context& context, const Value& value, const Arguments&) { return context.MakeList(Items(context, value)); }

Value Reverse(Context& context, const Value& value, const Arguments&) {
  if (value.IsString()) {
    std::u32string characters = ToCharacters(value.AsString());
    std::reverse(characters.begin(), characters.end());
    return context.MakeString(FromCharacters(characters));
  }
  std::vector<Value> items = Items(context, value);
  std::reverse(items.begin(), items.end());
  return context.MakeList(std::move(items));
}

Value ItemsFilter(Context& context, const Value& value, const Arguments&) {
  if (value.IsUndefined()) return Value::List({});
  return FindMethod(value, "items").AsFunction().call(context, {});
}

bool IsIgnoringCase(const Arguments& arguments, size_t index) {
  const Value* sensitive = arguments.Get(index, "case_sensitive");
  return sensitive == nullptr || !sensitive->Truth();
}

Value SortKey(const Value& value, bool ignore_case) {
  return ignore_case && value.IsString() ? Value::String(ChangeCase(value.AsString(), Case::kLower)) : value;
}

// Sorts stably by keys that were made once.
std::vector<Value> SortBy(Context& context, std::vector<std::pair<Value, Value>> keyed, bool reverse) {
  context.Step(static_cast<int64_t>(keyed.size()) * 16);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? Value::Compare(a.first, b.first) > 0 : Value::Compare(a.first, b.first) < 0;
  });
  std::vector<Value> items;
  for (auto& pair : keyed) items.push_back(std::move(pair.second));
  return items;
}

Value DictSort(Context& context, const Value& value, const Arguments& arguments) {
  const Value* by = arguments.Get(1, "by");
  const Value* reverse = arguments.Get(2, "reverse");
  bool by_value = by != nullptr && by->AsString() == "value";
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, item] : value.AsDict()) {
    Value name = Value::String(key);
    keyed.emplace_back(SortKey(by_value ? item : name, IsIgnoringCase(arguments, 0)), Value::List({name, item}));
  }
  return context.MakeList(SortBy(context, std::move(keyed), reverse != nullptr && reverse->Truth()));
}

Value Sort(Context& context, const Value& value, const Arguments& arguments) {
  const Value* reverse = arguments.Get(0, "reverse");
  const Value* attribute = arguments.Get(2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : Items(context, value)) {
    keyed.emplace_back(
        SortKey(attribute == nullptr ? item : Path(context, item, *attribute), IsIgnoringCase(arguments, 1)), item);
  }
  return context.MakeList(SortBy(context, std::move(keyed), reverse != nullptr && reverse->Truth()));
}

Value Unique(Context& context, const Value& value, const Arguments& arguments) {
  std::vector<Value> keys, items;
  for (const Value& item : Items(context, value)) {
    Value key = SortKey(item, IsIgnoringCase(arguments, 0));
    context.Step(static_cast<int64_t>(keys.size()));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    keys.push_back(std::move(key));
    items.push_back(item);
  }
  return context.MakeList(std::move(items));
}

template <int sign>
Value Extreme(Context& context, const Value& value, const Arguments& arguments) {
  const Value* attribute = arguments.Get(1, "attribute");
  Value best = Value::Missing("the extreme of nothing"), best_key;
  for (const Value& item : Items(context, value)) {
    Value key = attribute == nullptr ? item : Path(context, item, *attribute);
    if (!best.IsUndefined() && Value::Compare(key, best_key) * sign <= 0) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value Sum(Context& context, const Value& value, const Arguments& arguments) {
  const Value* attribute = arguments.Get(0, "attribute");
  const Value* start = arguments.Get(1, "start");
  Value sum = start == nullptr ? Value::Int(0) : *start;
  for (const Value& item : Items(context, value)) {
    sum = Arithmetic(context, "+", sum, attribute == nullptr ? item : Path(context, item, *attribute));
  }
  return sum;
}

// map('upper'), map(attribute='name', default=...).
Value Map(Context& context, const Value& value, const Arguments& arguments) {
  std::vector<Value> items;
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [name, given] : arguments.named) {
    if (name == "attribute") attribute = &given;
    if (name == "default") otherwise = &given;
  }
  if (attribute != nullptr) {
    for (const Value& item : Items(context, value)) {
      Value part = Path(context, item, *attribute);
      items.push_back(part.IsUndefined() && otherwise != nullptr ? *otherwise : part);
    }
    return context.MakeList(std::move(items));
  }
  const std::string& name = arguments.Require(0, "filter").AsString();
  Filter filter = FindFilter(name);
  if (filter == nullptr) throw TemplateError("the filter '" + name + "' is not supported");
  Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : Items(context, value)) items.push_back(filter(context, item, rest));
  return context.MakeList(std::move(items));
}

// select, reject: by a test; selectattr, rejectattr: by a test of an attribute.
template <bool by_attribute, bool keep>
Value Select(Context& context, const Value& value, const Arguments& arguments) {
  size_t test_index = by_attribute ? 1 : 0;
  Test test = nullptr;
  Arguments rest;
  rest.named = arguments.named;
  if (arguments.positional.size() > test_index) {
    const std::string& name = arguments.positional[test_index].AsString();
    test = FindTest(name);
    if (test == nullptr) throw TemplateError("the test '" + name + "' is not supported");
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(test_index) + 1,
                           arguments.positional.end());
  }
  std::vector<Value> items;
  for (const Value& item : Items(context, value)) {
    Value tested = by_attribute ? Path(context, item, arguments.Require(0, "attribute")) : item;
    if ((test == nullptr ? tested.Truth() : test(context, tested, rest)) == keep) items.push_back(item);
  }
  return context.MakeList(std::move(items));
}

}  // namespace

Filter FindListFilter(const std::string& name) {
  static const std::map<std::string, Filter> filters = {
      {"join", Join},
      {"first", First},
      {"last", Last},
      {"list", ToList},
      {"reverse", Reverse},
      {"items", ItemsFilter},
      {"dictsort", DictSort},
      {"sort", Sort},
      {"unique", Unique},
      {"min", Extreme<-1>},
      {"max", Extreme<1>},
      {"sum", Sum},
      {"map", Map},
      {"select", Select<false, true>},
      {"reject", Select<false, false>},
      {"selectattr", Select<true, true>},
      {"rejectattr", Select<true, false>},
  };
  auto found = filters.find(name);
  return found == filters.end() ? nullptr : found->second;
}

}  // namespace troupe::jinja
