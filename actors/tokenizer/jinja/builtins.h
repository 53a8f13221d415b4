// SPDX-License-Identifier: Apache-2.0
// What templates can call: filters, tests, functions, and the methods of strings, lists and dicts.
#pragma once

#include <string>

#include "actors/tokenizer/jinja/context.h"
#include "actors/tokenizer/jinja/value.h"

namespace troupe::jinja {

using Filter = Value (*)(Context& context, const Value& value, const Arguments& arguments);
using Test = bool (*)(Context& context, const Value& value, const Arguments& arguments);

// nullptr: none of that name.
Filter FindFilter(const std::string& name);
Test FindTest(const std::string& name);

// range, namespace, dict, raise_exception, strftime_now; undefined for another name.
Value FindFunction(const std::string& name);

// `value.name` and `value['name']` where it is a method; undefined if there is none.
Value FindMethod(const Value& value, const std::string& name);

// Operators.
Value GetAttribute(const Value& value, const std::string& name);  // throws where `value` is undefined
Value GetItem(Context& context, const Value& value, const Value& index);
Value GetSlice(Context& context, const Value& value, const Value& start, const Value& stop, const Value& step);
Value Arithmetic(Context& context, const std::string& op, const Value& a, const Value& b);
bool Contains(Context& context, const Value& container, const Value& item);

// As json.dumps(ensure_ascii=False) writes it. `indent` below 0: on one line.
std::string JsonText(const Value& value, int indent, bool sort_keys);

}  // namespace troupe::jinja
